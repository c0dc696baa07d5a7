"""`python -m tests`: the whole suite in three parts at once; with arguments, pytest with them.

`python -m tests docker`: the tests on Docker, which are in none of the parts.

Tests of processes wait most of their time for starts, locks and leases, the others for their databases: side by side
they take little more than the longest part. Each part is a pytest session with services of its own.
"""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from types import FrameType

from tests.conftest import KEEP_VARIABLE

# Asked for by name: they take minutes, an engine and root.
DOCKER, DOCKER_VARIABLE = "docker", "NEO4J_QUEUE_TEST_DOCKER"
# Parts of much the same length.
FAULTS = ("tests/faults", "tests/http")
PROCESSES = ("tests/celery", "tests/services", "tests/graph")
PARTS = {
    "faults and HTTP": FAULTS,
    "worker processes, services and graph": PROCESSES,
    # A folder that is new is in this part, not in none.
    "everything else": ("tests", *(f"--ignore={folder}" for folder in (*FAULTS, *PROCESSES))),
}


def main(arguments: Sequence[str]) -> int:
    """Returns the exit code of pytest, of the worst part."""
    pytest = [sys.executable, "-m", "pytest"]
    if list(arguments[:1]) == [DOCKER]:
        environment = {**os.environ, DOCKER_VARIABLE: "1"}
        named = any(argument.startswith(f"tests/{DOCKER}") for argument in arguments)
        place = () if named else (f"tests/{DOCKER}",)
        os.execve(sys.executable, [*pytest, "-s", *place, *arguments[1:]], environment)
    if arguments or os.environ.get(KEEP_VARIABLE):
        # Kept services serve one session at a time.
        os.execv(sys.executable, [*pytest, *arguments])
    started = time.monotonic()
    with ExitStack() as stack:
        # The first is watched while it runs; the others are read when all have ended.
        later = [
            stack.enter_context(tempfile.TemporaryFile("w+", encoding="utf-8")) for _ in range(len(PARTS) - 1)
        ]
        parts = [
            subprocess.Popen([*pytest, *paths], stdout=output, stderr=output)
            for paths, output in zip(PARTS.values(), [None, *later], strict=True)
        ]
        _pass_on_sigterm(parts)
        codes = [_ended(part) for part in parts]
        for output in later:
            output.seek(0)
            print(output.read(), flush=True)
    for name, code in zip(PARTS, codes, strict=True):
        print(f"{'passed' if code == 0 else f'FAILED ({code})'}: {name}")
    print(f"all in {time.monotonic() - started:.0f} s", flush=True)
    return max(codes)


def _pass_on_sigterm(parts: Sequence[subprocess.Popen[bytes]]) -> None:
    def pass_on(number: int, _frame: FrameType | None) -> None:
        for part in parts:
            part.send_signal(number)

    signal.signal(signal.SIGTERM, pass_on)


def _ended(part: subprocess.Popen[bytes]) -> int:
    """Its exit code. Ctrl-C reaches the parts as it reaches us: they stop what they started, and we wait for that."""
    while True:
        try:
            return abs(part.wait())
        except KeyboardInterrupt:
            continue


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

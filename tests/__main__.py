"""`python -m tests`: the whole suite in two halves at once; with arguments, pytest with them.

Tests of processes wait most of their time for starts, locks and leases, the others for their databases: side by side
they take little more than the longer half. Each half is a pytest session with services of its own.
"""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from types import FrameType
from typing import IO

from tests.conftest import KEEP_VARIABLE

PROCESSES = ("tests/celery", "tests/faults")
# A folder that is new is in the second half, not in none.
HALVES = {
    "worker processes and faults": PROCESSES,
    "everything else": ("tests", *(f"--ignore={folder}" for folder in PROCESSES)),
}


def main(arguments: Sequence[str]) -> int:
    """Returns the exit code of pytest, of the worse half."""
    pytest = [sys.executable, "-m", "pytest"]
    if arguments or os.environ.get(KEEP_VARIABLE):
        # Kept services serve one session at a time.
        os.execv(sys.executable, [*pytest, *arguments])
    started = time.monotonic()
    with tempfile.TemporaryFile("w+", encoding="utf-8") as later:
        outputs: list[IO[str] | None] = [None, later]
        halves = [
            subprocess.Popen([*pytest, *paths], stdout=output, stderr=output)
            for paths, output in zip(HALVES.values(), outputs, strict=True)
        ]
        _pass_on_sigterm(halves)
        codes = [_ended(half) for half in halves]
        later.seek(0)
        print(later.read(), flush=True)
    for name, code in zip(HALVES, codes, strict=True):
        print(f"{'passed' if code == 0 else f'FAILED ({code})'}: {name}")
    print(f"both in {time.monotonic() - started:.0f} s", flush=True)
    return max(codes)


def _pass_on_sigterm(halves: Sequence[subprocess.Popen[bytes]]) -> None:
    def pass_on(number: int, _frame: FrameType | None) -> None:
        for half in halves:
            half.send_signal(number)

    signal.signal(signal.SIGTERM, pass_on)


def _ended(half: subprocess.Popen[bytes]) -> int:
    """Its exit code. Ctrl-C reaches the halves as it reaches us: they stop what they started, and we wait for that."""
    while True:
        try:
            return abs(half.wait())
        except KeyboardInterrupt:
            continue


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

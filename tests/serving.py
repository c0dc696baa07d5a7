"""A server of ours as a process of its own, which says on its stderr where it listens."""

import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

from tests.celery_processes import ROOT
from tests.waiting import wait_until

COMMAND = [sys.executable, "-m", "neo4j_queue.cli"]
# A server imports the driver, Celery and more: seconds on a busy machine.
READY_S = 60.0


class Listening(NamedTuple):
    """A process that listens at `url`. `log` is the file of its stderr."""

    process: subprocess.Popen[bytes]
    url: str
    log: Path


@contextmanager
def listening(
    command: Sequence[str], announced: str, environment: Mapping[str, str], directory: Path, *arguments: str
) -> Iterator[Listening]:
    """`neo4j-queue COMMAND` with these arguments, on a free port unless they name one; killed at the end.

    `announced`: what stands before its address in the line that says where it listens.
    """
    directory.mkdir(parents=True, exist_ok=True)
    log = directory / f"{command[0]}-{len(list(directory.iterdir()))}.log"
    port = [] if "--port" in arguments else ["--port", "0"]
    with log.open("wb") as stderr:
        process = subprocess.Popen(
            [*COMMAND, *command, *port, *arguments],
            env={**environment, "PYTHONPATH": str(ROOT)},
            cwd=directory,
            stdout=stderr,
            stderr=stderr,
        )
    try:
        find = partial(_address, process, log, announced)
        url = wait_until(find, within_s=READY_S, what="the server listens")
        yield Listening(process, url, log)
    finally:
        process.kill()
        process.wait()


def _address(process: subprocess.Popen[bytes], log: Path, announced: str) -> str | None:
    text = log.read_text(encoding="utf-8")
    assert process.poll() is None, text
    lines = [line for line in text.splitlines() if announced in line]
    return lines[0].partition(announced)[2] if lines else None

"""Processes whose clock is wrong, by libfaketime: a tool of the tests alone, installed on Debian as root, else skipped
with a loud reason."""

import os
import shutil
import subprocess
from functools import cache
from pathlib import Path

import pytest

INSTALL_S = 120.0


@cache
def _library() -> Path | None:
    found = _installed()
    if found is None and os.geteuid() == 0 and shutil.which("apt-get"):
        command = ["apt-get", "install", "-y", "--no-install-recommends", "faketime"]
        subprocess.run(command, capture_output=True, timeout=INSTALL_S, check=False)
        found = _installed()
    return found


def _installed() -> Path | None:
    # The variant for programs with threads.
    return next(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"), None)


def clock_off(offset: str) -> dict[str, str]:
    """Environment of a process whose wall clock is off by so much (`+5s`, `-1h`); its monotonic clock is not."""
    library = _library()
    if library is None:
        pytest.skip("NO TEST OF WRONG CLOCKS: libfaketime is missing (Debian: apt-get install faketime)")
    return {"LD_PRELOAD": str(library), "FAKETIME": offset, "FAKETIME_DONT_FAKE_MONOTONIC": "1"}

"""A server process that outlives the program that started it, and can be found again by another one.

A process id alone proves nothing: ids are used again. The record also holds the time at which the kernel
started the process, so that a signal only ever goes to the process that we started.
"""

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

POLL_S = 0.05
# A process that the kernel cannot end in this time hangs in a device; waiting longer would not help.
KILL_TIMEOUT_S = 10.0
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
GONE = (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)


@dataclass(frozen=True, slots=True)
class ServerProcess:
    """One started server: process id (also its process group), start time as the kernel tells it, port."""

    pid: int
    started: str
    port: int

    @classmethod
    def spawn(
        cls,
        command: Sequence[str],
        *,
        port: int,
        directory: Path,
        log: Path,
        record: Path,
        environment: Mapping[str, str] | None = None,
    ) -> "ServerProcess":
        """Starts `command` in a session of its own and writes `record`.

        Own session: a Ctrl-C at the terminal of the caller does not reach it, and the end of the caller
        neither. Its output goes to `log`, emptied first. `environment` None: that of the caller.
        """
        with log.open("wb") as output:
            child = subprocess.Popen(
                command,
                cwd=directory,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            # A server that is dead before we look has no start time; `is_alive` then says so.
            process = cls(child.pid, _started(child.pid) or "", port)
            partial = record.with_suffix(".partial")
            partial.write_text(json.dumps(asdict(process)), encoding="utf-8")
            partial.rename(record)
        except BaseException:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
            raise
        # It is meant to outlive this object; without a code, Popen would warn of a child left behind.
        child.returncode = 0
        return process

    @classmethod
    def recorded(cls, record: Path) -> "ServerProcess | None":
        """The process of a record, if it is still alive and still the same one."""
        try:
            values = json.loads(record.read_text(encoding="utf-8"))
            process = cls(int(values["pid"]), str(values["started"]), int(values["port"]))
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError):
            # Not written by us; nothing that could safely be stopped.
            return None
        return process if process.is_alive() else None

    def is_alive(self) -> bool:
        """True if the process that we started still runs (a zombie does not)."""
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self.pid, os.WNOHANG)  # reaps it where it is our own child
        return bool(self.started) and _started(self.pid) == self.started

    def end(self, grace_s: float) -> None:
        """SIGTERM to the group, SIGKILL after `grace_s` seconds; returns when the process is gone.

        Raises `TimeoutError` if not even SIGKILL ends it.
        """
        self.signal(signal.SIGTERM)
        # A process that was stopped (SIGSTOP) acts on SIGTERM only when it runs again.
        self.signal(signal.SIGCONT)
        if not self.wait(grace_s):
            self.kill()

    def kill(self) -> None:
        """SIGKILL to the group; returns when the process is gone."""
        self.signal(signal.SIGKILL)
        if not self.wait(KILL_TIMEOUT_S):
            raise TimeoutError(f"process {self.pid} did not end {KILL_TIMEOUT_S:.0f} s after SIGKILL")

    def signal(self, number: signal.Signals) -> None:
        """Sends a signal to the process group, if the process is still the one that we started."""
        if self.is_alive():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, number)

    def wait(self, timeout_s: float) -> bool:
        """Waits for the end of the process; False when `timeout_s` seconds were not enough."""
        deadline = time.monotonic() + timeout_s
        while self.is_alive():
            if time.monotonic() > deadline:
                return False
            time.sleep(POLL_S)
        return True


def _started(pid: int) -> str | None:
    """When the kernel started this process, as an opaque text; None for none and for a zombie."""
    try:
        process = psutil.Process(pid)
        # After SIGKILL the first thread is a zombie while others still hold the ports open: not gone yet.
        if process.status() in GONE and process.num_threads() <= 1:
            return None
        # Since the boot, not since 1970: setting the machine's clock moves both times. Whole ticks of the kernel
        # compare exactly.
        return str(round((process.create_time() - psutil.boot_time()) * TICKS_PER_S))
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return None  # a process that we may not look at is not ours

"""The machine under the measurement, and who used its processors."""

import os
import platform
import time
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import psutil

from neo4j_queue.local_services.neo4j_files import NEO4J_VERSION


def describe() -> dict[str, Any]:
    """What a reader of a result must know of the machine. `load` is the load average of the last minute."""
    return {
        "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "processors": os.cpu_count(),
        "processor": _processor(),
        "memory_gb": round(psutil.virtual_memory().total / 2**30, 1),
        "system": platform.system(),
        "python": platform.python_version(),
        "neo4j": NEO4J_VERSION,
        "driver": version("neo4j"),
        "celery": version("celery"),
        "load": round(os.getloadavg()[0], 2),
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")


class ProcessorTime:
    """Processor seconds since this object was made: of some processes with their children, and of this one alone.

    Rates on a shared machine depend on what others do; the processor time of a piece of work hardly does.
    """

    def __init__(self, pids: Mapping[str, int]) -> None:
        self._processes = {name: psutil.Process(pid) for name, pid in pids.items()}
        self._before = self._now()

    def seconds(self) -> dict[str, float]:
        """Processor seconds by name; `client` is this process."""
        return {name: spent - self._before[name] for name, spent in self._now().items()}

    def _now(self) -> dict[str, float]:
        # The servers are children of this process and have their own figures.
        return {
            **{name: _spent(each) for name, each in self._processes.items()},
            "client": time.process_time(),
        }


def _spent(process: psutil.Process) -> float:
    total = 0.0
    for each in (process, *process.children(recursive=True)):
        try:
            times = each.cpu_times()
        except psutil.NoSuchProcess:
            continue
        # `children_*` are children that have ended.
        total += times.user + times.system + times.children_user + times.children_system
    return total

"""The programs that local services need: Java, Maven, redis-server."""

import os
import re
import shutil
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from neo4j_queue.local_services.config import Progress, Report, silent
from neo4j_queue.local_services.failures import MissingTools

# What Neo4j 5.26 asks for.
JAVA_AT_LEAST = 17
# Debian 12 and Ubuntu have the first, Debian 13 the second.
JAVA_PACKAGES = ("openjdk-17-jre-headless", "openjdk-21-jre-headless", "default-jre-headless")


@dataclass(frozen=True, slots=True)
class Tool:
    """A program, what it is for, and the packages that bring it."""

    name: str
    purpose: str
    apt: str
    dnf: str
    brew: str


JAVA = Tool(
    "java",
    f"Java {JAVA_AT_LEAST} or newer, runs Neo4j",
    JAVA_PACKAGES[0],
    "java-21-openjdk-headless",
    "openjdk@21",
)
MAVEN = Tool("mvn", "Maven, fetches the Neo4j files", "maven", "maven", "maven")
REDIS = Tool("redis-server", "Redis, carries the messages", "redis-server", "redis", "redis")
TOOLS = (JAVA, MAVEN, REDIS)


def java_command() -> str:
    """The `java` to run: that of `$JAVA_HOME` if it is set, else the one on PATH."""
    home = os.environ.get("JAVA_HOME")
    candidate = Path(home, "bin", "java") if home else None
    return str(candidate) if candidate and candidate.is_file() else "java"


def java_version(command: str | None = None) -> int | None:
    """The feature release (17 of `17.0.15`, 8 of `1.8.0_412`) of `command`; None where there is no Java."""
    try:
        answer = subprocess.run(
            [command or java_command(), "-version"], capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r'version "(?:1\.)?(\d+)', answer.stderr + answer.stdout)
    return int(found.group(1)) if found and answer.returncode == 0 else None


def missing(tools: Sequence[Tool] = TOOLS) -> list[Tool]:
    """Those of `tools` that this machine does not have, or has too old."""
    return [tool for tool in tools if not _is_here(tool)]


def _is_here(tool: Tool) -> bool:
    if tool is JAVA:
        return (java_version() or 0) >= JAVA_AT_LEAST
    return shutil.which(tool.name) is not None


def check_tools(tools: Sequence[Tool] = TOOLS) -> None:
    """Raises `MissingTools` unless every one of `tools` is here."""
    absent = missing(tools)
    if absent:
        raise MissingTools([tool.name for tool in absent], _advice(absent))


def _advice(absent: Sequence[Tool]) -> str:
    version = java_version() if JAVA in absent else None
    lines = ["Missing on this machine:"]
    for tool in absent:
        found = f"; the Java here is {version}" if tool is JAVA and version else ""
        lines.append(f"  {tool.name:<13} {tool.purpose}{found}")
    lines += [
        "How to install:",
        f"  Debian, Ubuntu   sudo apt-get install {' '.join(tool.apt for tool in absent)}",
        f"  Fedora           sudo dnf install {' '.join(tool.dnf for tool in absent)}",
        f"  macOS            brew install {' '.join(tool.brew for tool in absent)}",
    ]
    return "\n".join(lines)


def ensure_tools(report: Report = silent, tools: Sequence[Tool] = TOOLS) -> None:
    """Like `check_tools`, but on a Debian-like system root installs what is missing, by apt-get."""
    absent = missing(tools)
    if not absent:
        return
    if os.geteuid() == 0 and shutil.which("apt-get"):
        _install(absent, report)
    check_tools(tools)


def _install(absent: Sequence[Tool], report: Report) -> None:
    started = time.monotonic()
    report(Progress("tools", "reading the package lists (apt-get update)"))
    _apt_get("update")
    packages = [_java_package() if tool is JAVA else tool.apt for tool in absent]
    report(Progress("tools", f"installing {', '.join(packages)} (apt-get install)"))
    _apt_get("install", "--yes", "--no-install-recommends", *packages)
    seconds = time.monotonic() - started
    report(Progress("tools", f"installed {', '.join(packages)} in {seconds:.0f} s", finished=True))


def _java_package() -> str:
    for package in JAVA_PACKAGES:
        shown = subprocess.run(["apt-cache", "show", package], capture_output=True, text=True, check=False)
        if shown.returncode == 0 and shown.stdout.strip():
            return package
    return JAVA_PACKAGES[0]


def _apt_get(*arguments: str) -> None:
    """Runs apt-get without questions; raises `MissingTools` with the end of its output if it fails."""
    done = subprocess.run(
        ["apt-get", "-q", *arguments],
        env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        absent = missing()
        # The end of the output holds apt's own "E:" lines.
        tail = "\n".join(done.stdout.strip().splitlines()[-5:])
        message = f"apt-get {arguments[0]} failed:\n{tail}\n{_advice(absent)}"
        raise MissingTools([tool.name for tool in absent], message)

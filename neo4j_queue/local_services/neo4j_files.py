"""The Neo4j server and APOC as jar files, fetched by Maven once per user and version.

Fetched into a temporary directory beside the final one and renamed when complete: the final directory exists
whole or not at all, whatever interrupts the fetch. A file lock lets one process fetch while others wait.
"""

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from neo4j_queue.local_services.config import Progress, Report, cache_directory
from neo4j_queue.local_services.failures import FetchFailed
from neo4j_queue.local_services.locking import exclusive
from neo4j_queue.local_services.requirements import MAVEN, check_tools

NEO4J_VERSION = "5.26.29"
# The newest APOC of the 5.26 line in the Java repository; runs on any 5.26 server.
APOC_VERSION = "5.26.19"
# What APOC takes from no server: triggers do not work without it. The version is the one that APOC was built with.
JSON_PATH_VERSION = "2.9.0"
# A home directory is complete or not there; what belongs to it has changed once since the first.
HOME_REVISION = 2
COPY_GOAL = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"
# What Maven downloads from nothing, its own plugins included: the end of the progress bar. Counted in files,
# since the many small ones take most of the time.
EXPECTED_FILES = 776
TEMPORARY_PREFIX = ".fetch-"

SERVER = (("org.neo4j", "neo4j", NEO4J_VERSION), ("org.neo4j.app", "neo4j-server", NEO4J_VERSION))
APOC = (
    ("org.neo4j.procedure", "apoc-core", APOC_VERSION),
    ("org.neo4j.procedure", "apoc-common", APOC_VERSION),
    ("com.jayway.jsonpath", "json-path", JSON_PATH_VERSION),
)


def neo4j_home() -> Path:
    """Where the files of these versions are or will be: `lib/` and `plugins/`."""
    return cache_directory() / f"neo4j-{NEO4J_VERSION}-apoc-{APOC_VERSION}-{HOME_REVISION}"


def fetch(report: Report) -> Path:
    """The home directory with all files, fetched if need be. Raises `MissingTools`, `FetchFailed`."""
    home = neo4j_home()
    if home.is_dir():
        return home
    check_tools([MAVEN])

    def wait() -> None:
        report(Progress("neo4j", "another process is fetching the Neo4j files, waiting for it"))

    with exclusive(home.parent / f"{home.name}.lock", wait):
        if not home.is_dir():
            _fetch_into(home, report)
    report(Progress("neo4j", f"Neo4j files are in {home}", finished=True))
    return home


def _fetch_into(home: Path, report: Report) -> None:
    # We hold the lock: a temporary directory that is there belongs to a fetch that was killed.
    for leftover in home.parent.glob(f"{TEMPORARY_PREFIX}*"):
        shutil.rmtree(leftover, ignore_errors=True)
    report(Progress("neo4j", f"fetching Neo4j {NEO4J_VERSION} and APOC {APOC_VERSION} by Maven"))
    temporary = Path(tempfile.mkdtemp(prefix=TEMPORARY_PREFIX, dir=home.parent))
    try:
        files, megabytes = 0, 0.0
        for folder, artifacts, alone in (("lib", SERVER, False), ("plugins", APOC, True)):
            pom = temporary / f"{folder}.xml"
            pom.write_text(_pom(artifacts, alone=alone), encoding="utf-8")
            for size in _copy_dependencies(pom, temporary / folder):
                files, megabytes = files + 1, megabytes + size
                message = f"fetched {files} files, {megabytes:.0f} MB"
                report(Progress("neo4j", message, min(files, EXPECTED_FILES), EXPECTED_FILES))
            for _, name, version in artifacts:
                if not (temporary / folder / f"{name}-{version}.jar").is_file():
                    raise FetchFailed(f"Maven ended well, but {name}-{version}.jar is not there")
        temporary.rename(home)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _pom(artifacts: tuple[tuple[str, str, str], ...], *, alone: bool) -> str:
    """A project that is nothing but its dependencies; `alone` leaves out those that they have themselves."""
    # The server has what APOC needs; a second copy of a library in `plugins` could shadow the server's own.
    nothing_else = (
        "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"
    )
    dependencies = "\n".join(
        f"    <dependency><groupId>{group}</groupId><artifactId>{name}</artifactId>"
        f"<version>{version}</version>{nothing_else if alone else ''}</dependency>"
        for group, name, version in artifacts
    )
    return f"""<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>neo4j-queue</groupId><artifactId>neo4j-files</artifactId><version>1</version>
  <packaging>pom</packaging>
  <dependencies>
{dependencies}
  </dependencies>
</project>
"""


def _copy_dependencies(pom: Path, target: Path) -> Iterator[float]:
    """Runs Maven; yields the megabytes of each file as it comes. Raises `FetchFailed`."""
    command = ["mvn", "--batch-mode", "-f", str(pom), COPY_GOAL]
    command += ["-DincludeScope=runtime", f"-DoutputDirectory={target}", "-Dstyle.color=never"]
    errors: list[str] = []
    maven = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env={**os.environ, "MAVEN_COLOR": "never"},
    )
    try:
        assert maven.stdout is not None
        for line in maven.stdout:
            if line.startswith("[ERROR]"):
                errors.append(line.removeprefix("[ERROR]").strip())
            elif size := _downloaded_mb(line):
                yield size
        if maven.wait() != 0:
            # The first lines name the artifact and the cause; the rest is advice about Maven's switches.
            reason = "\n".join([line for line in errors if line][:4]) or f"exit code {maven.returncode}"
            raise FetchFailed(f"Maven could not fetch the Neo4j files:\n{reason}")
    finally:
        if maven.poll() is None:
            maven.terminate()
            maven.wait()


def _downloaded_mb(line: str) -> float:
    """The size in a line such as `Downloaded from central: https://… (1.3 MB at 5.0 MB/s)`, else 0."""
    found = re.match(r"(?:\[INFO\] )?Downloaded from \S+ .*\(([\d.,]+) (B|kB|MB) at ", line)
    if not found:
        return 0.0
    scale = {"B": 1e-6, "kB": 1e-3, "MB": 1.0}[found.group(2)]
    return float(found.group(1).replace(",", ".")) * scale

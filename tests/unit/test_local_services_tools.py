"""What happens on a machine where programs are missing: each is named, with how to get it.

The machines are made of a PATH with small programs in it.
"""

import os
import stat
from pathlib import Path

import pytest

from neo4j_queue.local_services import FetchFailed, MissingTools, Progress
from neo4j_queue.local_services.neo4j_files import fetch
from neo4j_queue.local_services.requirements import TOOLS, ensure_tools, java_version, missing

JAVA_17 = "echo 'openjdk version \"17.0.15\" 2025-04-15' >&2"


class Machine:
    """A PATH that holds the programs given to it and nothing else."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def program(self, name: str, script: str = "exit 0") -> Path:
        path = self.directory / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return path


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    directory = tmp_path / "bin"
    directory.mkdir()
    monkeypatch.setenv("PATH", str(directory))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    return Machine(directory)


@pytest.mark.usefixtures("machine")
def test_every_missing_tool_is_named_with_its_packages() -> None:
    with pytest.raises(MissingTools) as failure:
        ensure_tools()
    assert failure.value.names == ("java", "mvn", "redis-server")
    assert failure.value.exit_code == 75
    text = str(failure.value)
    assert "sudo apt-get install openjdk-17-jre-headless maven redis-server" in text
    assert "brew install openjdk@21 maven redis" in text


def test_only_what_is_missing_is_named(machine: Machine) -> None:
    machine.program("java", JAVA_17)
    machine.program("mvn")
    with pytest.raises(MissingTools) as failure:
        ensure_tools()
    assert failure.value.names == ("redis-server",)
    assert "maven" not in str(failure.value)


def test_nothing_is_missing_on_a_complete_machine(machine: Machine) -> None:
    machine.program("java", JAVA_17)
    machine.program("mvn")
    machine.program("redis-server")
    ensure_tools()


@pytest.mark.parametrize(
    ("line", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "1.8.0_412"', 8),
        ('openjdk version "21" 2023-09-19', 21),
        ("something else", None),
    ],
)
def test_the_version_of_java_is_read(line: str, version: int | None, machine: Machine) -> None:
    machine.program("java", f"echo '{line}' >&2")
    assert java_version() == version


def test_an_old_java_counts_as_missing_and_is_named(machine: Machine) -> None:
    machine.program("java", "echo 'openjdk version \"11.0.2\"' >&2")
    machine.program("mvn")
    machine.program("redis-server")
    with pytest.raises(MissingTools, match=r"Java 17 or newer.*the Java here is 11"):
        ensure_tools()


def test_java_home_goes_before_path(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.program("java", "echo 'openjdk version \"11.0.2\"' >&2")
    home = tmp_path / "jdk"
    (home / "bin").mkdir(parents=True)
    Machine(home / "bin").program("java", JAVA_17)
    monkeypatch.setenv("JAVA_HOME", str(home))
    assert java_version() == 17


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may install")
def test_root_installs_exactly_what_is_missing(machine: Machine, tmp_path: Path) -> None:
    machine.program("java", JAVA_17)
    calls = tmp_path / "calls"
    installed = machine.directory
    machine.program(
        "apt-get",
        f'echo "$DEBIAN_FRONTEND $*" >> {calls}\n'
        f'case "$*" in *install*) for name in mvn redis-server; do '
        f"printf '#!/bin/sh\\n' > {installed}/$name; /bin/chmod +x {installed}/$name; done;; esac",
    )
    news: list[Progress] = []
    ensure_tools(news.append)
    assert missing(TOOLS) == []
    assert calls.read_text().splitlines() == [
        "noninteractive -q update",
        "noninteractive -q install --yes --no-install-recommends maven redis-server",
    ]
    assert news[-1].finished


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may install")
def test_the_first_java_that_the_distribution_has_is_installed(machine: Machine, tmp_path: Path) -> None:
    machine.program("mvn")
    machine.program("redis-server")
    machine.program("apt-cache", 'test "$2" = openjdk-21-jre-headless && echo "Package: $2"')
    calls = tmp_path / "calls"
    machine.program("apt-get", f'echo "$*" >> {calls}')
    with pytest.raises(MissingTools):  # this apt-get installs nothing
        ensure_tools()
    assert calls.read_text().splitlines()[-1].endswith(" openjdk-21-jre-headless")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may install")
def test_a_failing_apt_get_shows_its_reason(machine: Machine) -> None:
    machine.program("apt-get", "echo 'E: Unable to locate package maven'; exit 100")
    with pytest.raises(MissingTools, match="Unable to locate package maven"):
        ensure_tools()


@pytest.mark.usefixtures("machine")
def test_a_fetch_without_maven_names_maven(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEO4J_QUEUE_CACHE", str(tmp_path / "cache"))
    with pytest.raises(MissingTools) as failure:
        fetch(lambda _news: None)
    assert failure.value.names == ("mvn",)


def test_a_fetch_that_maven_cannot_do_shows_why_and_leaves_nothing(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = tmp_path / "cache"
    monkeypatch.setenv("NEO4J_QUEUE_CACHE", str(cache))
    machine.program("mvn", "echo '[INFO] Scanning'; echo '[ERROR] Could not resolve neo4j-server'; exit 1")
    with pytest.raises(FetchFailed, match="Could not resolve neo4j-server"):
        fetch(lambda _news: None)
    assert [path.suffix for path in cache.iterdir()] == [".lock"]

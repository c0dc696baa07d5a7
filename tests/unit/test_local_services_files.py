"""The Neo4j files are there whole or not at all, whatever interrupts the fetch.

Maven is a small program here that makes empty files: what is tested is what we do around it.
"""

import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from neo4j_queue.local_services import ServicesConfig
from neo4j_queue.local_services.config import Progress, silent
from neo4j_queue.local_services.neo4j_files import (
    APOC_VERSION,
    JSON_PATH_VERSION,
    NEO4J_VERSION,
    _downloaded_mb,
    fetch,
    neo4j_home,
)
from neo4j_queue.local_services.neo4j_server import Neo4jServer

# A loaded machine takes seconds to start Python.
WAIT_S = 60.0
MAVEN = f"""#!/bin/sh
echo run >> "$CALLS"
for argument in "$@"; do
  case "$argument" in -DoutputDirectory=*) target="${{argument#*=}}";; esac
done
mkdir -p "$target"
echo "Downloaded from central: somewhere/a.jar (1.5 MB at 2.0 MB/s)"
if [ -n "$HANG" ]; then touch "$target/half.jar"; echo $$ > "$HANG"; exec sleep 600; fi
case "$target" in
  *lib) touch "$target/neo4j-{NEO4J_VERSION}.jar" "$target/neo4j-server-{NEO4J_VERSION}.jar";;
  *) touch "$target/apoc-core-{APOC_VERSION}.jar" "$target/apoc-common-{APOC_VERSION}.jar" \\
      "$target/json-path-{JSON_PATH_VERSION}.jar";;
esac
"""
FETCH = """
from neo4j_queue.local_services.neo4j_files import fetch
fetch(lambda news: print(news.message, flush=True))
"""


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    maven = tmp_path / "bin" / "mvn"
    maven.parent.mkdir()
    maven.write_text(MAVEN)
    maven.chmod(maven.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{maven.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("CALLS", str(tmp_path / "calls"))
    monkeypatch.delenv("HANG", raising=False)
    monkeypatch.setenv("NEO4J_QUEUE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def runs(cache: Path) -> int:
    return len((cache.parent / "calls").read_text().splitlines())


def test_files_are_fetched_once(cache: Path) -> None:
    news: list[Progress] = []
    home = fetch(news.append)
    assert home == neo4j_home()
    assert (home / "lib" / f"neo4j-server-{NEO4J_VERSION}.jar").exists()
    assert (home / "plugins" / f"apoc-core-{APOC_VERSION}.jar").exists()
    assert [each.done for each in news if each.done] == [1, 2]
    assert news[-1].finished
    fetch(silent)
    assert runs(cache) == 2  # one for the server and one for APOC, both of the first fetch


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_an_interrupted_fetch_leaves_nothing_half(number: signal.Signals, cache: Path) -> None:
    """Fails when the files are fetched straight into their final place."""
    hanging = cache.parent / "hanging"
    with subprocess.Popen(
        [sys.executable, "-c", FETCH],
        env={**os.environ, "HANG": str(hanging)},
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as fetching:
        deadline = time.monotonic() + WAIT_S
        while not (hanging.exists() and hanging.read_text().strip()):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        fetching.send_signal(number)
        fetching.wait(WAIT_S)
        # SIGKILL and SIGTERM leave our child behind, as they would leave Maven.
        if number is not signal.SIGINT:
            os.killpg(fetching.pid, signal.SIGKILL)
    assert not neo4j_home().exists()
    home = fetch(silent)
    assert sorted(path.name for path in (home / "lib").iterdir()) == [
        f"neo4j-{NEO4J_VERSION}.jar",
        f"neo4j-server-{NEO4J_VERSION}.jar",
    ]
    assert sorted(path.name for path in cache.iterdir()) == [home.name, f"{home.name}.lock"]


def test_fetches_at_once_run_maven_once(cache: Path) -> None:
    """Fails when `fetch` takes no lock, or does not look again once it has it."""
    fetching = [subprocess.Popen([sys.executable, "-c", FETCH]) for _ in range(2)]
    assert [each.wait(WAIT_S) for each in fetching] == [0, 0]
    assert runs(cache) == 2


@pytest.mark.parametrize(
    ("line", "megabytes"),
    [
        ("Downloaded from central: x/a.jar (1.3 MB at 5.0 MB/s)", 1.3),
        ("[INFO] Downloaded from central: x/a.pom (12 kB at 100 kB/s)", 0.012),
        ("Downloaded from mirror: x/a.pom (312 B at 4.1 kB/s)", 0.000312),
        ("Downloading from central: x/a.jar", 0),
        ("[INFO] Copying a.jar to b", 0),
    ],
)
def test_the_size_of_a_downloaded_file_is_read(line: str, megabytes: float) -> None:
    assert _downloaded_mb(line) == pytest.approx(megabytes)


def test_settings_given_replace_ours_so_that_no_name_comes_twice(tmp_path: Path) -> None:
    """The server refuses to start on a repeated name."""
    given = {"dbms.security.auth_enabled": "true", "server.memory.pagecache.size": "64m"}
    config = ServicesConfig(directory=tmp_path, throwaway=True, neo4j_settings=given)
    server = Neo4jServer("jobs", 7000, "embedding-jobs", config, tmp_path / "home", silent)
    server.directory.mkdir()
    server.prepare()
    lines = (tmp_path / "jobs" / "conf" / "neo4j.conf").read_text().splitlines()
    names = [line.partition("=")[0] for line in lines if not line.startswith("#")]
    assert len(names) == len(set(names))
    assert "dbms.security.auth_enabled=true" in lines
    assert "db.tx_log.rotation.retention_policy=keep_none" in lines


def test_only_throwaway_services_drop_their_transaction_logs(tmp_path: Path) -> None:
    server = Neo4jServer("graph", 7000, "neo4j", ServicesConfig(directory=tmp_path), tmp_path, silent)
    assert not [name for name in server.settings() if name.startswith("db.tx_log")]

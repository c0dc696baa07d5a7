"""`up` and `down` as far as they need no servers: the file that they write, and the servers of the demo."""

import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from neo4j_queue.cli import app, env_file
from neo4j_queue.local_services.process import ServerProcess


def called(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        app(list(arguments), prog_name="neo4j-queue")
    return int(ended.value.code or 0)


def test_the_env_file_is_for_this_user_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the umask is. Seen to fail without the opener: the mode is 0666."""
    monkeypatch.chdir(tmp_path)
    before = os.umask(0)
    try:
        written = env_file.write({"NEO4J_URI": "bolt://h"})
    finally:
        os.umask(before)
    assert written == tmp_path / ".env"
    assert stat.S_IMODE(written.stat().st_mode) == 0o600
    assert env_file.write({"NEO4J_URI": "bolt://other"}) is None
    assert "bolt://h" in written.read_text()


@pytest.fixture
def demo_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ServerProcess]:
    """A process that `demo` would have started as its Redis."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    directory = tmp_path / "neo4j-queue" / "demo"
    (directory / "redis").mkdir(parents=True)
    (directory / "lock").touch()
    process = ServerProcess.spawn(
        [sys.executable, "-c", "import time; time.sleep(60)"],
        port=1,
        directory=directory,
        log=directory / "log",
        record=directory / "redis" / "process.json",
    )
    yield process
    process.kill()


def test_down_names_the_servers_of_the_demo_and_stops_them_only_with_all(
    demo_server: ServerProcess, capsys: pytest.CaptureFixture[str]
) -> None:
    assert called("down") == 0
    said = capsys.readouterr()
    assert f"redis (process {demo_server.pid})" in said.err
    assert "down --all" in said.err
    assert demo_server.is_alive()

    assert called("down", "--all") == 0
    said = capsys.readouterr()
    assert said.out == "stopped: redis of the demo\n"
    assert "go on running" not in said.err
    assert not demo_server.is_alive()


@pytest.mark.parametrize("other", [["--directory", "."], ["--engine", "docker"]], ids=" ".join)
def test_all_is_no_directory_and_no_engine(other: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert called("down", "--all", *other) == 2
    assert "--all" in capsys.readouterr().err

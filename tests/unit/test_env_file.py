"""A `.env` that no settings can be read from is refused in one line that names it, and never taken for none."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from neo4j_queue.errors import SettingsError
from neo4j_queue.settings import Role, Settings, env_file
from neo4j_queue.settings.unknown_names import suspicious_names

ROOT = Path(__file__).parents[2]
CLI = [sys.executable, "-m", "neo4j_queue.cli"]
CELERY = [sys.executable, "-m", "celery", "-A", "tasks"]
LATIN = "EMBED_BATCH_SIZE=5\nEMBED_ENTITY_LABEL=Größe\n".encode("latin-1")


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    for name in [*(field.upper() for field in Settings.model_fields), "REDIS_URL"]:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def refused() -> str:
    """The one line for a worker; the same for the others, and lenient settings do without the file."""
    found = set()
    for role in Role:
        with pytest.raises(SettingsError) as caught:
            Settings.load(role)
        found.add(str(caught.value))
    assert Settings.lenient() == Settings(_env_file=None)
    assert suspicious_names() == []
    (line,) = found
    assert "\n" not in line
    return line


@pytest.mark.parametrize(
    ("content", "line"),
    [(LATIN, 2), (b"\xff", 1), ("A=1\n".encode("utf-16"), 1), ("#\nA=1\n".encode("utf-16-le"), 1)],
    ids=["latin-1", "a byte", "utf-16 with a mark", "utf-16"],
)
def test_another_encoding_is_refused_with_the_line(here: Path, content: bytes, line: int) -> None:
    (here / ".env").write_bytes(content)
    assert refused() == f"{here}/.env is not text in UTF-8 (line {line}): save it in that encoding"


def test_a_directory_is_refused(here: Path) -> None:
    (here / ".env").mkdir()
    assert refused().startswith(f"{here}/.env is a directory: ")


def test_a_link_that_leads_nowhere_is_refused(here: Path) -> None:
    (here / ".env").symlink_to("shared.env")
    assert refused() == f"{here}/.env leads to shared.env, which is not there: remove the link or mend it"


def test_a_file_that_may_not_be_read_is_refused(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(_: Path) -> bytes:
        raise PermissionError(13, "Permission denied")

    (here / ".env").write_text("EMBED_BATCH_SIZE=5\n")
    monkeypatch.setattr(Path, "read_bytes", forbidden)  # root may read everything
    assert "cannot be read (Permission denied)" in refused()


def test_a_pipe_is_read_once(here: Path) -> None:
    """What is handed over by a pipe is gone after the first reading."""
    os.mkfifo(here / ".env")
    assert env_file.trouble(Path(".env")) is None


@pytest.mark.parametrize(
    "command",
    [
        [*CLI, "status"],
        [*CLI, "doctor"],
        [*CLI, "enqueue", "Ada"],
        [*CLI, "up", "--engine", "docker"],
        [*CLI, "up", "--engine", "external"],
        [*CELERY, "worker", "-c", "1"],
        [*CELERY, "beat"],
    ],
    ids=lambda command: " ".join(command[2:]),
)
def test_command_line_worker_and_beat_end_with_78_and_one_line(here: Path, command: list[str]) -> None:
    (here / ".env").write_bytes(LATIN)
    done = subprocess.run(
        command,
        cwd=here,
        env={**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "200"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 78, done.stderr
    said = (done.stdout + done.stderr).splitlines()
    assert [line for line in said if f"{here}/.env is not text in UTF-8 (line 2)" in line]
    assert "Traceback" not in done.stderr

"""`setup compose`: the passwords of compose.yaml are made, what `.env` holds is kept, and nobody else can read it."""

import json
import os
import re
import stat
from pathlib import Path

import pytest
from dotenv import dotenv_values

from neo4j_queue.cli import app
from neo4j_queue.local_services import ServiceError
from neo4j_queue.local_services.compose_env import PASSWORDS, entry, prepare
from neo4j_queue.settings import Settings

ROOT = Path(__file__).parents[2]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory of a deployment."""
    (tmp_path / "compose.yaml").write_text("services: {}\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def called(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        app(list(arguments), prog_name="neo4j-queue")
    return int(ended.value.code or 0)


def test_passwords_are_made_and_the_next_commands_named(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = os.umask(0)
    try:
        assert called("setup", "compose") == 0
    finally:
        os.umask(before)
    file = here / ".env"
    values = dotenv_values(file)
    made = [values[name] for name in PASSWORDS]
    assert all(value and len(value) == 32 for value in made)
    assert len(set(made)) == len(PASSWORDS)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    said = capsys.readouterr()
    assert "docker compose up -d" in said.out
    assert not [value for value in made if value and value in said.out + said.err]
    # The commands on this host read the same file.
    settings = Settings(_env_file=file)
    assert settings.neo4j_username == settings.embed_job_database_username == "neo4j"
    assert settings.celery_broker_url == f"redis://:{values['NEO4J_QUEUE_REDIS_PASSWORD']}@127.0.0.1:6379/0"
    assert settings.embed_job_retention_days == 14
    assert [path.name for path in here.iterdir() if path.name.startswith(".env")] == [".env"]


def test_again_it_changes_nothing(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert called("setup", "compose") == 0
    first = (here / ".env").read_bytes()
    capsys.readouterr()
    assert called("setup", "compose", "--json") == 0
    assert (here / ".env").read_bytes() == first
    answer = json.loads(capsys.readouterr().out)
    assert answer["made"] == []
    assert set(PASSWORDS) <= set(answer["kept"])


def test_what_is_there_is_kept_in_its_place(here: Path) -> None:
    file = here / ".env"
    file.write_text(
        "# mine\nOPENAI_API_KEY=sk-abc\nNEO4J_PASSWORD=my-own-password\nEMBED_JOB_DATABASE_PASSWORD=\n"
        'EMBED_TEXT_TEMPLATE="{name}\\n{text}"\nEMBED_JOB_RETENTION_DAYS=30\n'
        "CELERY_BROKER_URL=redis://user:secret@elsewhere:6379/1\n"
    )
    file.chmod(0o644)
    written = prepare(file)
    assert written.closed
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    lines = file.read_text().splitlines()
    assert lines[:3] == ["# mine", "OPENAI_API_KEY=sk-abc", "NEO4J_PASSWORD=my-own-password"]
    assert re.fullmatch(r"EMBED_JOB_DATABASE_PASSWORD=[0-9a-f]{32}", lines[3])
    assert lines[4] == r'EMBED_TEXT_TEMPLATE="{name}\n{text}"'
    assert "EMBED_JOB_RETENTION_DAYS=30" in lines
    assert "CELERY_BROKER_URL=redis://user:secret@elsewhere:6379/1" in lines
    assert "NEO4J_PASSWORD" in written.kept


def test_a_copy_of_env_example_gets_what_it_leaves_open(here: Path) -> None:
    file = here / ".env"
    file.write_text((ROOT / ".env.example").read_text())
    prepare(file)
    settings = Settings(_env_file=file)
    assert settings.neo4j_password
    assert settings.embed_job_database_password
    redis = dotenv_values(file)["NEO4J_QUEUE_REDIS_PASSWORD"]
    assert settings.celery_broker_url == f"redis://:{redis}@127.0.0.1:6379/0"


def test_the_password_of_an_earlier_deployment_goes_on(here: Path) -> None:
    """It stood in NEO4J_AUTH, for both servers, and their volumes keep it."""
    file = here / ".env"
    file.write_text("NEO4J_AUTH=neo4j/of-the-volumes\n")
    prepare(file)
    values = dotenv_values(file)
    assert values["NEO4J_PASSWORD"] == values["EMBED_JOB_DATABASE_PASSWORD"] == "of-the-volumes"
    file.write_text("NEO4J_AUTH=none\n")
    prepare(file)
    assert dotenv_values(file)["NEO4J_PASSWORD"] not in ("none", "", None)


@pytest.mark.parametrize("odd", ["with blank", "an@host/path", 'quo"te12', "pass$word", "secret"])
def test_a_password_that_cannot_work_is_refused_by_its_name_alone(here: Path, odd: str) -> None:
    file = here / ".env"
    file.write_text(f"NEO4J_PASSWORD='{odd}'\n")
    with pytest.raises(ServiceError, match="NEO4J_PASSWORD") as refused:
        prepare(file)
    assert odd not in str(refused.value)
    assert file.read_text() == f"NEO4J_PASSWORD='{odd}'\n"


def test_a_link_stays_a_link(here: Path) -> None:
    (here / "kept-elsewhere").write_text("LOG_LEVEL=DEBUG\n")
    (here / ".env").symlink_to("kept-elsewhere")
    prepare(here / ".env")
    assert (here / ".env").is_symlink()
    assert dotenv_values(here / "kept-elsewhere")["NEO4J_PASSWORD"]


def test_without_compose_yaml_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert called("setup", "compose") == 1
    assert "there is no compose.yaml in" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_an_env_file_of_no_settings_is_named(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / ".env").mkdir()
    assert called("setup", "compose") == 78
    assert "is a directory" in capsys.readouterr().err


def test_the_entry_for_programs_on_the_host_has_the_port_that_is_published(here: Path) -> None:
    prepare(here / ".env")
    values = dotenv_values(here / ".env")
    found = entry(here / ".env", 16379)
    assert found["NEO4J_PASSWORD"] == values["NEO4J_PASSWORD"]
    assert found["CELERY_BROKER_URL"] == f"redis://:{values['NEO4J_QUEUE_REDIS_PASSWORD']}@127.0.0.1:16379/0"
    assert entry(here / "absent", 16379) == {}

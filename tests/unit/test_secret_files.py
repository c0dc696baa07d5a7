"""Every secret may stand in a file, and a file that cannot be read is an error, never no secret."""

from pathlib import Path

import pytest

from neo4j_queue.errors import SettingsError
from neo4j_queue.settings import Role, Settings
from neo4j_queue.settings.secret_files import MOST_BYTES
from neo4j_queue.settings.unknown_names import suspicious_names

NAMES = ("NEO4J_PASSWORD", "EMBED_JOB_DATABASE_PASSWORD", "OPENAI_API_KEY", "MCP_TOKEN", "SERVE_TOKEN")
USERS = {"NEO4J_USERNAME": "neo4j", "EMBED_JOB_DATABASE_USERNAME": "neo4j"}
SECRET = "a secret of $ome characters".replace(" ", "-")


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No variable of ours and no `.env` from outside."""
    for name in (*NAMES, *USERS):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(f"{name}_FILE", raising=False)
    monkeypatch.chdir(tmp_path)


def problems() -> list[str]:
    with pytest.raises(SettingsError) as caught:
        Settings.load(Role.CLI)
    return caught.value.problems


def user_of(name: str) -> dict[str, str]:
    return {user: value for user, value in USERS.items() if user == name.replace("PASSWORD", "USERNAME")}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("end", ["", "\n", "\r\n", "\n\n"], ids=repr)
def test_a_secret_is_read_from_its_file_without_the_end_of_the_line(
    name: str, end: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("secret").write_text(SECRET + end, newline="")
    for variable, value in {**user_of(name), f"{name}_FILE": "secret"}.items():
        monkeypatch.setenv(variable, value)
    found = getattr(Settings.load(Role.CLI), name.lower())
    assert found.get_secret_value() == SECRET
    assert SECRET in Settings.load(Role.CLI).secrets()


def test_the_env_file_may_name_the_file_too(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("secret").write_text(SECRET)
    Path(".env").write_text("MCP_TOKEN_FILE=secret\n")
    token = Settings.load(Role.CLI).mcp_token
    assert token is not None
    assert token.get_secret_value() == SECRET
    assert suspicious_names({}, {f"{name}_FILE": "x" for name in NAMES}) == []
    # The environment goes before the file of settings, whichever of the two ways it takes.
    monkeypatch.setenv("MCP_TOKEN", "the-environment-says-this")
    token = Settings.load(Role.CLI).mcp_token
    assert token is not None
    assert token.get_secret_value() == "the-environment-says-this"


@pytest.mark.parametrize("name", NAMES)
def test_what_cannot_be_read_is_refused_with_both_names_and_without_the_secret(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Failed while such a variable was read by nothing: a server that should have asked for a token asked for none."""
    Path("empty").write_text("\n")
    Path("large").write_text("x" * (MOST_BYTES + 1))
    Path("bytes").write_bytes(b"\xff\xfe\x00")
    Path("folder").mkdir()
    for user, value in user_of(name).items():
        monkeypatch.setenv(user, value)
    for file in ("nowhere", "empty", "large", "bytes", "folder", "/dev/zero"):
        monkeypatch.setenv(f"{name}_FILE", file)
        (line,) = [line for line in problems() if line.startswith(f"{name}: ")]
        assert f"{name}_FILE={file}" in line
    Path("good").write_text(SECRET)
    monkeypatch.setenv(f"{name}_FILE", "good")
    monkeypatch.setenv(name, "another-secret-of-some-characters")
    (line,) = [line for line in problems() if line.startswith(f"{name}: ")]
    assert "is set twice" in line
    assert "another-secret" not in line


@pytest.mark.parametrize("blank", ["", "  "], ids=repr)
def test_a_blank_variable_means_none(blank: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MCP_TOKEN_FILE", blank)
    assert Settings.load(Role.CLI).mcp_token is None
    Path("good").write_text(SECRET)
    monkeypatch.setenv("MCP_TOKEN_FILE", "good")
    monkeypatch.setenv("MCP_TOKEN", blank)
    token = Settings.load(Role.CLI).mcp_token
    assert token is not None
    assert token.get_secret_value() == SECRET


def test_the_address_of_the_broker_may_stand_in_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may hold a password. Seen failing while only whole secrets were read from files: the default was in force."""
    url = "redis://:a-password@redis:6379/0"
    Path("broker").write_text(f"{url}\n")
    monkeypatch.setenv("CELERY_BROKER_URL_FILE", "broker")
    assert Settings.load(Role.CLI).celery_broker_url == url
    assert suspicious_names({}, {"CELERY_BROKER_URL_FILE": "x"}) == []
    # The first of the two names wins, in a file too.
    monkeypatch.setenv("REDIS_URL", "redis://other:6379/0")
    assert Settings.load(Role.CLI).celery_broker_url == url
    monkeypatch.setenv("CELERY_BROKER_URL_FILE", "nowhere")
    assert problems() == ["CELERY_BROKER_URL or REDIS_URL: CELERY_BROKER_URL_FILE=nowhere is not a file"]


PEM = "".join(f"-----BEGIN {what}-----\nx\n-----END {what}-----\n" for what in ("CERTIFICATE", "PRIVATE KEY"))


def test_a_client_certificate_is_shown_over_tls_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("client.pem").write_text(PEM)
    monkeypatch.setenv("NEO4J_CLIENT_CERTIFICATE", "client.pem")
    (line,) = problems()
    assert line.startswith("NEO4J_CLIENT_CERTIFICATE is shown over TLS alone")
    monkeypatch.setenv("NEO4J_URI", "bolt+s://graph:7687")
    settings = Settings.load(Role.CLI)
    assert settings.graph_address().certificate == settings.jobs_address().certificate == "client.pem"
    assert settings.graph_address().encrypted
    assert not settings.jobs_address().encrypted


@pytest.mark.parametrize(
    "half", [PEM.partition("-----BEGIN PRIVATE")[0], PEM[PEM.index("-----BEGIN PRIVATE") :], ""]
)
def test_a_certificate_without_its_key_is_refused(half: str, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("client.pem").write_text(half)
    monkeypatch.setenv("NEO4J_URI", "bolt+s://graph:7687")
    monkeypatch.setenv("NEO4J_CLIENT_CERTIFICATE", "client.pem")
    assert [line for line in problems() if "holds a certificate and its key" in line]

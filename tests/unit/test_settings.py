"""B11, first half: every setting is strict, every problem is said at once, and nothing is silently the default."""

import re
from itertools import pairwise
from pathlib import Path

import pytest
from dotenv import dotenv_values
from pydantic import ValidationError

from neo4j_queue import cypher
from neo4j_queue.errors import SettingsError
from neo4j_queue.names import RESERVED_LABELS, VECTOR
from neo4j_queue.settings import Role, Settings
from neo4j_queue.settings.readers import without_password
from neo4j_queue.settings.settings import GRACE_MAX_MS, PROFILE_NAMES, RETENTION_DAYS_MAX, RETENTION_DAYS_MIN

ENV_EXAMPLE = Path(__file__).parents[2] / ".env.example"
COMPOSE = Path(__file__).parents[2] / "compose.yaml"
REFERENCE = Path(__file__).parents[2] / "docs/reference/settings.md"

NOT_WHOLE = ["14abc", "14.7", " ", "-1", "1e3", "1_000", "+5", "0x10", "１４", "nan", "true"]
NOT_DECIMAL = ["two", "-0.1", "nan", "inf", "1e-1", "0,5"]
NOT_A_FLAG = ["maybe", "2", "y e s"]
NOT_A_DATABASE = [
    "127.0.0.1:7687",
    "http://h:7474",
    "bolt://",
    "bolt://h:port",
    "bolt://u:p@h",
    "bolt://h h",
]
NOT_A_NAME = ["  ", "a\tb", "a\x7fb", "a\x85b"]
NOT_A_BODY = ["text", "[1]", "null", "{", '{"model": "m"}', '{"input": []}', '{"encoding_format": "float"}']
NOT_IN_THE_GRAPH = [*NOT_A_NAME, "back`tick", r"a\u0060b", r"a\\u0060b", "a\x7fb", "x " * 125 + "xx"]
NOT_DIMENSIONS = [*NOT_WHOLE, "0", "4097"]

# Every variable with values that must be refused. A variable that is missing here fails the test below.
WRONG: dict[str, list[str]] = {
    "NEO4J_URI": NOT_A_DATABASE,
    "NEO4J_USERNAME": ["user-without-password"],
    "NEO4J_PASSWORD": ["password-without-user"],
    "NEO4J_DATABASE": NOT_A_NAME,
    "NEO4J_VECTOR_INDEX": NOT_IN_THE_GRAPH,
    "NEO4J_VECTOR_DIMENSIONS": NOT_DIMENSIONS,
    "NEO4J_SIMILARITY_FUNCTION": ["dot", "cosin"],
    "NEO4J_CLIENT_CERTIFICATE": ["nowhere.pem", "/", "/dev/null"],
    "EMBED_JOB_DATABASE_URI": [*NOT_A_DATABASE, "redis://h"],
    "EMBED_JOB_DATABASE_USERNAME": ["user-without-password"],
    "EMBED_JOB_DATABASE_PASSWORD": ["password-without-user"],
    "EMBED_JOB_DATABASE_NAME": NOT_A_NAME,
    "CELERY_BROKER_URL": [
        *("amqp://h", "redis:", "h:6379", "redis://h:port/0", "rediss://h/0?ssl_cert_reqs=maybe"),
        *("redis://:pa/ss@h/0", "redis://u:12/ss@h/0", "redis://:p ss@h/0"),
    ],
    "EMBED_JOB_RETENTION_DAYS": [*NOT_WHOLE, "", "6", "31", "0"],
    "EMBED_JOB_ARCHIVE_DAYS": NOT_WHOLE,
    "EMBED_DEAD_LETTER_ALERT": NOT_WHOLE,
    "EMBED_JOB_LOCK_DURATION_MS": [*NOT_WHOLE, "0", "1000"],
    "EMBED_JOB_START_DEADLINE_MS": [*NOT_WHOLE, "30000", "300000"],
    "EMBED_JOB_HEARTBEAT_INTERVAL_MS": [*NOT_WHOLE, "0", "150000"],
    "EMBED_JOB_RECOVERY_INTERVAL": NOT_WHOLE,
    "EMBED_JOB_MAX_RETRIES": [*NOT_WHOLE, "0"],
    "EMBED_JOB_MAX_CRASHES": NOT_WHOLE,
    "EMBED_JOB_RETRY_BASE_DELAY_MS": [*NOT_WHOLE, "60001"],
    "EMBED_JOB_RETRY_MAX_DELAY_MS": [*NOT_WHOLE, "999"],
    "EMBED_JOB_RETRY_MULTIPLIER": [*NOT_DECIMAL, "0.5"],
    "EMBED_JOB_RETRY_JITTER_FACTOR": [*NOT_DECIMAL, "1.5"],
    "EMBEDDING_RATE_LIMIT_TOKENS": [*NOT_WHOLE, "none"],
    "EMBEDDING_RATE_LIMIT_INTERVAL": [*NOT_WHOLE, "0", "unlimited"],
    "EMBEDDING_RATE_LIMIT_MODEL_TOKENS": NOT_WHOLE,
    "EMBEDDING_PROVIDER_WINDOW": [*NOT_WHOLE, "999", "86400001", "unlimited"],
    "EMBEDDING_PRICE_PER_MILLION_TOKENS": [*NOT_DECIMAL, "1000001", "0.02 USD"],
    "EMBEDDING_PROVIDER": ["openia"],
    "EMBEDDING_PROFILE": ["olama", "mock"],
    "EMBEDDING_ENCODING_FORMAT": ["hex"],
    "EMBEDDING_EXTRA_BODY": NOT_A_BODY,
    "EMBEDDING_QUERY_BODY": NOT_A_BODY,
    "EMBED_PASSAGE_PREFIX": ["P" * 501],
    "EMBED_QUERY_PREFIX": ["Q" * 501],
    "OPENAI_API_KEY": ["sk-one sk-two", "sk-one\nsk-two", "sk-\u00e9"],
    "OPENAI_BASE_URL": ["api.example.com", "ftp://h", "http://"],
    "OPENAI_EMBEDDING_MODEL": NOT_A_NAME,
    "OPENAI_EMBEDDING_DIMENSIONS": NOT_DIMENSIONS,
    "MOCK_EMBEDDINGS": NOT_A_FLAG,
    "MOCK_EMBEDDING_LATENCY_MS": NOT_WHOLE,
    "EMBED_BATCH_SIZE": [*NOT_WHOLE, "0"],
    "EMBED_BATCH_TOKENS": [*NOT_WHOLE, "0"],
    "EMBED_INPUT_TOKENS": [*NOT_WHOLE, "0", "15"],
    "EMBED_LONG_TEXTS": ["cut"],
    "EMBED_CACHE_MB": [*NOT_WHOLE, "4097"],
    "EMBED_REQUEST_TIMEOUT_MS": [*NOT_WHOLE, "0", "60000", "150001"],
    "EMBED_SEARCH_TIMEOUT_MS": [*NOT_WHOLE, "0", "99", "60001"],
    "EMBED_SHUTDOWN_GRACE_MS": [*NOT_WHOLE, "30001"],
    "EMBED_DISCOVERY": [
        "outbocks",
        "outbox,,missing",
        "changed",
        "changed:",
        "changed: ",
        "changed:embedded_at",
        "changed:back`tick",
        r"changed:a\u0060b",
    ],
    "EMBED_DISCOVERY_INTERVALS": [*NOT_WHOLE, "999", "300000", "300000,soon", "1000,2000,3000"],
    "EMBED_ENTITY_LABEL": [*NOT_IN_THE_GRAPH, "EmbedPending", "EmbedJob"],
    "EMBED_ENTITY_KEY": [*NOT_IN_THE_GRAPH, "embedding_hash", "validTo"],
    "EMBED_DELETED_PROPERTY": [*NOT_IN_THE_GRAPH[1:], "embedding", "name", "entityType"],
    "EMBED_TEXT_PROPERTIES": [
        "name,",
        ",",
        "a,,b",
        "a\tb",
        "name,embedding_truncated",
        "name,back`tick",
        r"name,a\u0060b",
    ],
    "EMBED_TEXT_TEMPLATE": [
        *(
            "{name",
            "name}",
            "{}",
            "no property",
            "{name!r}",
            "{name:>10}",
            "{a{b}}",
            "{a:}",
            "{ }",
            "{``}",
            "{a} }",
        ),
        *("{name} {embedded_at}", "{name} {back`tick}", r"{name} {a\u0060b}"),
    ],
    "EMBED_FULLTEXT_ANALYZER": NOT_A_NAME,
    "LOG_LEVEL": ["LOUD", "WARN"],
    "LOG_FORMAT": ["xml"],
    "EMBED_LOG_CONTENT": NOT_A_FLAG,
    "HEALTH_HOST": NOT_A_NAME,
    "HEALTH_PORT": [*NOT_WHOLE, "65536"],
    "MCP_TOKEN": ["fifteen-letters", "sixteen letters and blanks", "sixteen-letters-\u00e9"],
    "SERVE_TOKEN": ["fifteen-letters", "sixteen letters and blanks", "sixteen-letters-\u00e9"],
}

# The one setting without a default.
REQUIRED = "EMBED_JOB_RETENTION_DAYS"
SECRETS = ("NEO4J_PASSWORD", "EMBED_JOB_DATABASE_PASSWORD", "OPENAI_API_KEY", "MCP_TOKEN", "SERVE_TOKEN")


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No variable of ours and no `.env` from outside; what worker and beat require is there."""
    for name in [*WRONG, "REDIS_URL"]:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EMBED_JOB_RETENTION_DAYS", "14")


def problems_of(role: Role = Role.WORKER) -> list[str]:
    with pytest.raises(SettingsError) as caught:
        Settings.load(role)
    assert caught.value.exit_code == 78
    return caught.value.problems


def test_the_tables_here_and_in_env_example_name_every_setting() -> None:
    names = {name.upper() for name in Settings.model_fields}
    assert set(WRONG) == names
    written = re.findall(r"^#?([A-Z][A-Z0-9_]+)=", ENV_EXAMPLE.read_text(), re.MULTILINE)
    assert set(written) == names | {"REDIS_URL"}
    assert len(written) == len(set(written))


def test_compose_passes_every_setting_on() -> None:
    """What its header says of `.env` is true of each of them."""
    passed = re.findall(r"^    ([A-Z][A-Z0-9_]+):", COMPOSE.read_text(), re.MULTILINE)
    assert sorted(passed) == sorted(name.upper() for name in Settings.model_fields)


def test_a_container_is_given_more_time_than_the_longest_grace() -> None:
    """Failed with 30 s for both: what had not finished got no time to be given back."""
    worker = COMPOSE.read_text().partition("\nx-worker:")[2].partition("\nservices:")[0]
    (seconds,) = re.findall(r"stop_grace_period: (\d+)s", worker)
    assert int(seconds) * 1000 >= GRACE_MAX_MS + 10_000


def test_env_example_is_valid_and_shows_the_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("EMBED_JOB_RETENTION_DAYS")
    defaults = Settings(_env_file=None)
    shown = Settings(_env_file=ENV_EXAMPLE)
    assert shown.embed_job_retention_days == 14
    assert shown == defaults.model_copy(update={"embed_job_retention_days": 14})


@pytest.mark.parametrize(
    ("variable", "value"), [(variable, value) for variable, values in WRONG.items() for value in values]
)
def test_a_wrong_value_is_refused_with_a_line_that_names_its_variable(
    variable: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An empty value is among them for `EMBED_JOB_RETENTION_DAYS` alone, which has no default. For the others it was
    an error too, until `.env` files showed that people leave `NAME=` to mean the default."""
    monkeypatch.setenv(variable, value)
    lines = problems_of(Role.WORKER)
    assert any(re.search(rf"\b{variable}\b", line) for line in lines), lines
    assert all("\n" not in line for line in lines)


@pytest.mark.parametrize("role", [Role.BEAT, Role.CLI])
@pytest.mark.parametrize("variable", [variable for variable, values in WRONG.items() if values])
def test_beat_and_command_line_are_as_strict_as_the_worker(
    variable: str, role: Role, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, WRONG[variable][0])
    assert any(variable in line for line in problems_of(role))


@pytest.mark.parametrize("variable", [name for name in WRONG if name not in SECRETS])
def test_a_wrong_value_is_shown(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for value in [value for value in WRONG[variable] if re.fullmatch(r"[a-z0-9]{3,}", value)]:
        monkeypatch.setenv(variable, value)
        line = next(line for line in problems_of() if variable in line)
        assert value in line or "missing" in line


@pytest.mark.parametrize("role", [Role.WORKER, Role.BEAT])
def test_retention_is_required_by_worker_and_beat(role: Role, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("EMBED_JOB_RETENTION_DAYS")
    assert problems_of(role) == ["EMBED_JOB_RETENTION_DAYS is missing: required, a whole number from 7 to 30"]


def test_the_documents_give_the_bounds_of_the_retention() -> None:
    bounds = f"{RETENTION_DAYS_MIN} to {RETENTION_DAYS_MAX}"
    assert f"days that ended jobs are kept, {bounds}." in ENV_EXAMPLE.read_text()
    assert f"| `EMBED_JOB_RETENTION_DAYS` | required (worker, beat) | {bounds}:" in REFERENCE.read_text()


def test_the_command_line_needs_the_retention_for_cleanup_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("EMBED_JOB_RETENTION_DAYS")
    assert Settings.load(Role.CLI).embed_job_retention_days is None
    with pytest.raises(SettingsError, match="EMBED_JOB_RETENTION_DAYS is missing"):
        Settings.load(Role.CLI, needs_retention=True)


def test_all_problems_come_at_once_values_rules_and_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("EMBED_JOB_RETENTION_DAYS")
    monkeypatch.setenv("HEALTH_PORT", "http")
    monkeypatch.setenv("EMBED_BATCH_SIZE", "0")
    monkeypatch.setenv("EMBED_JOB_HEARTBEAT_INTERVAL_MS", "150000")
    monkeypatch.setenv("NEO4J_USERNAME", "ann")
    lines = problems_of()
    named = [re.match(r"[A-Z0-9_]+", line) for line in lines]
    assert {match[0] for match in named if match} == {
        "HEALTH_PORT",
        "EMBED_BATCH_SIZE",
        "EMBED_JOB_HEARTBEAT_INTERVAL_MS",
        "NEO4J_PASSWORD",
        "EMBED_JOB_RETENTION_DAYS",
    }
    assert len(lines) == 5


def test_a_rule_is_silent_about_a_setting_that_is_wrong_in_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EMBED_JOB_HEARTBEAT_INTERVAL_MS", "soon")
    monkeypatch.setenv("EMBED_JOB_LOCK_DURATION_MS", "200000")  # the default heartbeat would not fit to it
    assert len(problems_of()) == 1


def test_secrets_are_never_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in SECRETS:
        monkeypatch.setenv(name, "hunter22hunter22")  # as long as a token must be
    monkeypatch.setenv("CELERY_BROKER_URL", "http://ann:hunter22@host/0")
    monkeypatch.setenv("NEO4J_URI", "bolt://ann:hunter22@host")
    lines = problems_of()
    assert any("CELERY_BROKER_URL" in line for line in lines)
    assert "hunter22" not in "\n".join(lines)
    assert "hunter22" not in repr(
        Settings(
            _env_file=None,
            openai_api_key="hunter22",
            neo4j_username="a",
            neo4j_uri="bolt://h",
            celery_broker_url="redis://h",
            embed_job_database_username="b",
        )
    )


@pytest.mark.parametrize("sign", [*"/?# %", "@/", "://", "/1@", ":12/"])
@pytest.mark.parametrize("head", ["redis://:", "redis://ann:", "", ":"])
def test_no_part_of_a_broker_password_that_is_not_encoded_is_shown(
    head: str, sign: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the line says how to write it. Failed for `/`, `?`, `#` and the blank: all of it was on the screen."""
    monkeypatch.setenv("CELERY_BROKER_URL", f"{head}hunter{sign}22x@host:6379/0")
    try:
        settings = Settings.load(Role.WORKER)
    except SettingsError as error:
        (line,) = error.problems
        assert "hunter" not in line
        assert "22x" not in line
        assert "/ as %2F, @ as %40" in line
        assert "a space as %20" in line
    else:  # a lone % means itself
        assert sign == "%"
        assert settings.secrets()[0] == "hunter%22x"


def test_the_broker_password_is_hidden_as_it_is_written_and_as_it_is_meant() -> None:
    """Failed for the second: a message of Redis that repeats it was logged."""
    settings = Settings(_env_file=None, celery_broker_url="redis://:p%2Fss%40@h/0")
    assert set(settings.secrets()) == {"p%2Fss%40", "p/ss@"}


@pytest.mark.parametrize(
    ("graph", "jobs"),
    [
        ("bolt://h:7687", "bolt://h:7687"),
        ("bolt://h", "neo4j://H:7687"),
        ("bolt://localhost:7687", "bolt+s://127.0.0.1"),
    ],
)
def test_the_jobs_database_is_refused_when_it_is_the_graph(
    graph: str, jobs: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NEO4J_URI", graph)
    monkeypatch.setenv("EMBED_JOB_DATABASE_URI", jobs)
    monkeypatch.setenv("EMBED_JOB_DATABASE_NAME", "neo4j")
    (line,) = problems_of()
    assert "EMBED_JOB_DATABASE_URI" in line
    monkeypatch.setenv("EMBED_JOB_DATABASE_NAME", "embedding-jobs")
    Settings.load(Role.WORKER)


@pytest.mark.parametrize("variable", list(WRONG))
def test_bytes_that_are_no_text_are_refused(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guard: `utf8`. They come as lone surrogates, on which a driver or a provider breaks much later."""
    monkeypatch.setenv(variable, "bolt\udcff")
    assert any(re.search(rf"\b{variable}\b.*: must be text in UTF-8$", line) for line in problems_of())


@pytest.mark.parametrize("key", sorted(VECTOR.properties))
def test_a_key_of_this_librarys_own_is_refused_whatever_the_text_is_made_of(
    key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EMBED_TEXT_PROPERTIES", "title")
    monkeypatch.setenv("EMBED_ENTITY_KEY", key)
    used = "is a name that this library uses itself; choose one of your own"
    assert problems_of() == [f"EMBED_ENTITY_KEY='{key}': {used}"]


def test_the_labels_that_are_refused_are_all_that_the_statements_use() -> None:
    folder = Path(cypher.__file__).parent
    text = "".join(file.read_text() for file in folder.rglob("*.cypher"))
    assert set(re.findall(r"[(:\w]:(Embed\w+|Queue\w+)", text)) == RESERVED_LABELS


@pytest.mark.parametrize(
    "address",
    [
        "redis://:p@ss@host:6379/0",
        "redis://user:p/a@s/s@host:6379/0",
        "redis://:p@ss@host:port/0",
        "amqp://:half@ blank@host",
        "redis://:p%40ss@host extra",
    ],
)
def test_no_part_of_a_password_in_an_address_is_shown(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Seen failing before: it was cut at the first `@`, and the rest of the password was shown."""
    shown = [without_password(f"cannot reach {address.split()[0]} now")]
    if address != "redis://:p@ss@host:6379/0" and "a@s" not in address:
        monkeypatch.setenv("CELERY_BROKER_URL", address)
        shown += problems_of()
    for line in shown:
        assert not any(part in line for part in ("p@", "ss@", "s/s", "half", "blank", "40ss"))
        assert "***@" in line


def test_text_properties_and_text_template_exclude_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EMBED_TEXT_PROPERTIES", "title")
    monkeypatch.setenv("EMBED_TEXT_TEMPLATE", "{title}")
    (line,) = problems_of()
    assert "EMBED_TEXT_PROPERTIES" in line
    assert "EMBED_TEXT_TEMPLATE" in line


def test_a_wrong_profile_is_refused_with_the_list(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EMBEDDING_PROFILE", "olama")
    (line,) = problems_of()
    assert line.startswith("EMBEDDING_PROFILE='olama': must be one of auto, openai, azure, gemini")
    assert all(name in line for name in PROFILE_NAMES)


def test_the_template_error_names_the_wrong_placeholder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EMBED_TEXT_TEMPLATE", "{title} {body!r}")
    (line,) = problems_of()
    assert line.endswith("wrong: {body!r}")


@pytest.mark.parametrize(
    ("variable", "value", "expected"),
    [
        ("EMBED_BATCH_SIZE", " 14 ", 14),
        ("EMBED_INPUT_TOKENS", "16", 16),
        ("EMBEDDING_PROFILE", "Mistral", "mistral"),
        ("EMBED_LONG_TEXTS", "Fail", "fail"),
        ("EMBED_JOB_RECOVERY_INTERVAL", "0", 0),
        ("EMBED_JOB_ARCHIVE_DAYS", "0", 0),
        ("EMBED_DEAD_LETTER_ALERT", "0", 0),
        ("EMBEDDING_RATE_LIMIT_TOKENS", "0", 0),
        ("EMBEDDING_RATE_LIMIT_TOKENS", "unlimited", None),
        ("EMBEDDING_RATE_LIMIT_MODEL_TOKENS", "Unlimited", None),
        ("EMBED_JOB_RETRY_JITTER_FACTOR", "0", 0.0),
        ("EMBEDDING_PRICE_PER_MILLION_TOKENS", "0.065", 0.065),
        ("EMBED_JOB_RETRY_MULTIPLIER", "1.5", 1.5),
        ("MOCK_EMBEDDINGS", "Yes", True),
        ("OPENAI_API_KEY", "", None),
        ("OPENAI_BASE_URL", " ", None),
        ("NEO4J_USERNAME", "", None),
        ("EMBED_TEXT_PROPERTIES", " title , abstract,title", ("title", "abstract")),
        ("EMBED_TEXT_PROPERTIES", "", None),
        ("EMBED_TEXT_TEMPLATE", r"{name}\n{description}", "{name}\n{description}"),
        ("EMBED_TEXT_TEMPLATE", "{{{name}}}", "{{{name}}}"),
        ("EMBED_TEXT_TEMPLATE", "{rdfs:label} { title }", "{rdfs:label} { title }"),
        ("EMBED_TEXT_TEMPLATE", "{`body!r`} {`a:>10`}", "{`body!r`} {`a:>10`}"),
        ("EMBED_DISCOVERY", " Outbox , all,outbox", ("outbox", "all")),
        ("EMBED_DISCOVERY", "Changed: updatedAt ,changed:a:b", ("changed:updatedAt", "changed:a:b")),
        ("EMBED_DISCOVERY_INTERVALS", "60000, 7200000", (60_000, 7_200_000)),
        ("LOG_LEVEL", "debug", "DEBUG"),
        ("NEO4J_SIMILARITY_FUNCTION", "Euclidean", "euclidean"),
        ("REDIS_URL", "rediss://h:6380/1", "rediss://h:6380/1?ssl_cert_reqs=required"),
        *(
            (
                "CELERY_BROKER_URL",
                f"rediss://h/0?ssl_ca_certs=/ca.pem&ssl_cert_reqs={word}",
                f"rediss://h/0?ssl_ca_certs=/ca.pem&ssl_cert_reqs={meant}",
            )
            for word, meant in [
                ("CERT_REQUIRED", "required"),
                ("required", "required"),
                ("CERT_NONE", "none"),
                ("optional", "optional"),
            ]
        ),
        ("CELERY_BROKER_URL", "redis://:p%2Fss@h:6379/0", "redis://:p%2Fss@h:6379/0"),
        ("HEALTH_PORT", "0", 0),
        ("EMBED_DELETED_PROPERTY", "archived at", "archived at"),
        ("EMBED_DELETED_PROPERTY", "", None),
        ("EMBED_DELETED_PROPERTY", " None ", None),
    ],
)
def test_a_good_value_is_read(
    variable: str, value: str, expected: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, value)
    attribute = "celery_broker_url" if variable == "REDIS_URL" else variable.lower()
    assert getattr(Settings.load(Role.WORKER), attribute) == expected


@pytest.mark.parametrize("where", ["environment", "file"])
@pytest.mark.parametrize(
    "variable", [name for name in [*WRONG, "REDIS_URL"] if name not in (REQUIRED, "EMBED_DELETED_PROPERTY")]
)
def test_an_empty_value_means_the_default(variable: str, where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Failed for all but the optional texts before `unset_if_empty`: `OPENAI_EMBEDDING_DIMENSIONS=` was refused."""
    defaults = Settings.load(Role.WORKER)
    if where == "file":
        Path(".env").write_text(f"{variable}=\n")
    else:
        monkeypatch.setenv(variable, "")
    assert Settings.load(Role.WORKER) == defaults


@pytest.mark.parametrize("role", [Role.WORKER, Role.BEAT])
def test_a_required_setting_that_is_empty_is_missing(role: Role, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before, it was a wrong value; the line for a missing one says the same and why."""
    monkeypatch.setenv(REQUIRED, "")
    assert problems_of(role) == ["EMBED_JOB_RETENTION_DAYS is missing: required, a whole number from 7 to 30"]


def test_an_empty_variable_hides_the_env_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """`OPENAI_API_KEY= neo4j-queue ...` must not use the key of the file. Fails with pydantic's `env_ignore_empty`."""
    Path(".env").write_text("OPENAI_API_KEY=sk-file\nEMBED_BATCH_SIZE=5\n")
    monkeypatch.setenv("OPENAI_API_KEY", "")
    monkeypatch.setenv("EMBED_BATCH_SIZE", "")
    settings = Settings.load(Role.WORKER)
    assert (settings.openai_api_key, settings.embed_batch_size) == (None, None)


@pytest.mark.parametrize("where", ["environment", "file", "both"])
def test_an_empty_name_of_the_broker_does_not_hide_the_other(
    where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Guard: `settings_customise_sources`. Without it the broker of this machine is used, silently."""
    if where == "file":
        Path(".env").write_text("CELERY_BROKER_URL=\nREDIS_URL=redis://meant\n")
    else:
        monkeypatch.setenv("CELERY_BROKER_URL", "")
        if where == "both":
            Path(".env").write_text("REDIS_URL=redis://meant\n")
        else:
            monkeypatch.setenv("REDIS_URL", "redis://meant")
    assert Settings.load(Role.CLI).celery_broker_url == "redis://meant"


def test_celery_broker_url_goes_before_redis_url(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REDIS_URL", "redis://second")
    monkeypatch.setenv("CELERY_BROKER_URL", "redis://first")
    assert Settings.load(Role.CLI).celery_broker_url == "redis://first"


def test_the_environment_goes_before_the_env_file(monkeypatch: pytest.MonkeyPatch) -> None:
    Path(".env").write_text("EMBED_BATCH_SIZE=5\nHEALTH_PORT=4000\nSOMETHING_ELSE=1\n")
    monkeypatch.setenv("HEALTH_PORT", "5000")
    settings = Settings.load(Role.WORKER)
    assert (settings.embed_batch_size, settings.health_port) == (5, 5000)


@pytest.mark.parametrize(
    ("given", "limit"),
    [
        ({}, None),
        ({"MOCK_EMBEDDINGS": "true", "OPENAI_API_KEY": "k", "EMBEDDING_PROVIDER": "openai"}, None),
        ({"EMBEDDING_PROVIDER": "mock"}, None),
        ({"EMBEDDING_PROVIDER": "local", "OPENAI_API_KEY": "k"}, None),
        ({"EMBEDDING_PROVIDER": "local", "EMBEDDING_RATE_LIMIT_TOKENS": "20"}, 20),
        ({"EMBEDDING_PROVIDER": "local", "EMBEDDING_RATE_LIMIT_TOKENS": "0"}, 0),
        ({"EMBEDDING_PROVIDER": "local", "EMBEDDING_RATE_LIMIT_TOKENS": ""}, None),
        ({"EMBEDDING_PROVIDER": "openai"}, 20),
        ({"OPENAI_API_KEY": "k"}, 20),
        ({"OPENAI_API_KEY": "k", "EMBEDDING_RATE_LIMIT_TOKENS": ""}, 20),
        ({"OPENAI_API_KEY": ""}, None),
        ({"OPENAI_API_KEY": "k", "EMBEDDING_RATE_LIMIT_TOKENS": "unlimited"}, None),
    ],
)
def test_a_model_in_this_process_has_no_limit_unless_one_is_set(
    given: dict[str, str], limit: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    assert Settings.load(Role.CLI).embedding_rate_limit_tokens == limit


def test_a_wrong_value_in_the_env_file_is_refused() -> None:
    Path(".env").write_text("EMBED_BATCH_SIZE=five\n")
    (line,) = problems_of()
    assert line.startswith("EMBED_BATCH_SIZE='five'")


def test_lenient_never_raises_and_keeps_what_is_right(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable, values in WRONG.items():
        if values:
            monkeypatch.setenv(variable, values[0])
    monkeypatch.setenv("CELERY_BROKER_URL", "redis://kept:1/2")
    settings = Settings.lenient()
    assert settings.celery_broker_url == "redis://kept:1/2"
    assert settings.embed_job_lock_duration_ms == 300_000
    assert settings.embed_job_retention_days is None


def test_lenient_keeps_other_settings_when_only_a_rule_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EMBED_JOB_LOCK_DURATION_MS", "1000")
    monkeypatch.setenv("EMBED_JOB_RECOVERY_INTERVAL", "500")
    settings = Settings.lenient()
    assert settings.embed_job_recovery_interval == 500
    assert settings.embed_job_lock_duration_ms == 300_000


def test_settings_can_be_built_by_attribute_name_and_are_as_strict() -> None:
    settings = Settings(
        _env_file=None, embed_batch_size=7, celery_broker_url="redis://h", mock_embeddings=True
    )
    assert (settings.embed_batch_size, settings.celery_broker_url) == (7, "redis://h")
    for wrong in (7.5, True, -1, "7.0"):
        with pytest.raises(ValidationError):
            Settings(_env_file=None, embed_batch_size=wrong)


def test_addresses_carry_the_credentials_and_hide_the_password() -> None:
    settings = Settings(
        _env_file=None,
        neo4j_username="ann",
        neo4j_password="hunter22",
        embed_job_database_username="bob",
        embed_job_database_password="hunter33",
    )
    graph, jobs = settings.graph_address(), settings.jobs_address()
    assert (graph.uri, graph.database, graph.username, graph.password) == (
        "bolt://127.0.0.1:7687",
        "neo4j",
        "ann",
        "hunter22",
    )
    assert (jobs.uri, jobs.database, jobs.username, jobs.password) == (
        "bolt://127.0.0.1:7688",
        "embedding-jobs",
        "bob",
        "hunter33",
    )
    assert "hunter" not in repr(graph) + repr(jobs) + repr(settings)
    assert set(settings.secrets()) == {"hunter22", "hunter33"}


def test_env_example_has_a_line_of_meaning_above_every_variable() -> None:
    lines = ENV_EXAMPLE.read_text().splitlines()
    for above, line in pairwise(lines):
        if re.match(r"#?[A-Z][A-Z0-9_]+=", line):
            assert above, f"{line} stands alone"
    assert dotenv_values(ENV_EXAMPLE)["EMBED_JOB_RETENTION_DAYS"] == "14"


def test_a_property_that_hides_entities_may_become_the_key_where_another_one_hides_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("EMBED_DELETED_PROPERTY", "archived")
    monkeypatch.setenv("EMBED_ENTITY_KEY", "validTo")
    monkeypatch.setenv("EMBED_TEXT_PROPERTIES", "title,archived")
    hidden = "EMBED_DELETED_PROPERTY=archived: is part of the text, and any value of it hides an entity"
    assert problems_of() == [hidden]
    monkeypatch.setenv("EMBED_TEXT_PROPERTIES", "title")
    assert Settings.load(Role.WORKER).embed_entity_key == "validTo"


def test_nothing_hides_an_entity_from_the_env_file_either() -> None:
    """Guard: the exception from the rule that an empty value is the default."""
    Path(".env").write_text("EMBED_DELETED_PROPERTY=\n")
    assert Settings.load(Role.WORKER).deleted_property().name is None

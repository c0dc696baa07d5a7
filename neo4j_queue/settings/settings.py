"""Every setting of the product, read from the environment and from `.env`, in one strict class.

A value that is wrong is an error, never silently the default. `Settings.load(role)` reports every wrong one
at once; `Settings.lenient()` is for modules that must not fail while they are imported (`celeryconfig.py`):
there a wrong setting has its default, and the boot check reports it a moment later.
"""

from collections.abc import Callable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Self
from urllib.parse import unquote, urlsplit

from pydantic import (
    AfterValidator,
    AliasChoices,
    BeforeValidator,
    Field,
    SecretStr,
    ValidationError,
    WrapValidator,
    field_validator,
)
from pydantic import model_validator as rules
from pydantic_core import PydanticCustomError
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from neo4j_queue.database import Address
from neo4j_queue.errors import SettingsError
from neo4j_queue.names import DELETED, RESERVED_LABELS, VECTOR, DeletedProperty
from neo4j_queue.providers import AUTO, BASE64, FLOAT, NO_ENCODING, PROFILES
from neo4j_queue.settings import env_file, secret_files
from neo4j_queue.settings.readers import (
    CHANGED,
    bearer_token,
    comma_list,
    database_uri,
    decimal,
    discovery,
    flag,
    graph_name,
    header_value,
    identifier,
    intervals,
    none_if_blank,
    one_of,
    optional_name,
    prefix,
    redis_uri,
    request_fields,
    shown,
    template,
    unset_if_empty,
    utf8,
    web_address,
    whole,
    whole_or_auto,
    whole_or_unlimited,
)
from neo4j_queue.settings.rules import Violation, broken

ENV_FILE = Path(".env")
LOG_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
HOUR_MS, DAY_MS = 3_600_000, 86_400_000
WEEK_MS = 7 * DAY_MS
# The sweeps that beat may run, and how often: the outbox is a page of an index; the others walk over all entities.
SWEEP_EVERY_MS = {"outbox": 300_000, "missing": HOUR_MS, "all": DAY_MS}
# A look at what changed is a few reads of an index while nothing has: people see an edit within half a minute.
CHANGED_EVERY_MS = 30_000
# A week at least, so that what failed can still be looked at; a month at most, then the slim archive record is enough.
RETENTION_DAYS_MIN, RETENTION_DAYS_MAX = 7, 30
# A container runtime kills ten to thirty seconds after SIGTERM; longer grace would never be granted.
GRACE_MAX_MS = 30_000
# Each worker process has a cache of its own: more than this is a typing error.
CACHE_MAX_MB = 4_096
# The first one wins where both are set.
BROKER_NAMES = ("celery_broker_url", "redis_url")
# Fewer tokens than this hold no sentence; a text cut to one of them would be cut to nothing.
INPUT_TOKENS_MIN = 16
PROFILE_NAMES = (AUTO, *PROFILES)
# Every word counts, in any language that has blanks between words: "The Who" is a name.
DEFAULT_ANALYZER = "standard-no-stop-words"
# A person waits no longer than this for a search.
SEARCH_TIMEOUT_MAX_MS = 60_000


class Role(StrEnum):
    """Which program reads the settings: worker and beat need more of them than the command line."""

    WORKER = "worker"
    BEAT = "beat"
    CLI = "cli"


# An optional text or secret: blank means "not set", as in `OPENAI_API_KEY=` of a compose file.
OptionalText = Annotated[str | None, BeforeValidator(none_if_blank)]
OptionalSecret = Annotated[SecretStr | None, BeforeValidator(none_if_blank)]
BatchLimit = Annotated[int | None, BeforeValidator(whole(1, 10_000_000))]
Dimensions = Annotated[int | None, BeforeValidator(whole(1, 4096))]
Budget = Annotated[int | None, BeforeValidator(whole_or_unlimited(0, 1_000_000_000))]


class _NotSet(int):
    """A number that nobody has set, as opposed to the same one that somebody has."""


def _kept_if_not_set(value: Any, read: Callable[[Any], Any]) -> Any:
    return value if isinstance(value, _NotSet) else read(value)


# Requests in a minute that every account of a provider has.
USUAL_LIMIT = _NotSet(20)
RequestBudget = Annotated[Budget, WrapValidator(_kept_if_not_set)]
Price = Annotated[float | None, BeforeValidator(decimal(0, 1_000_000))]
Milliseconds = Annotated[int, BeforeValidator(whole(0, DAY_MS))]
# A second at least: what is counted in less cannot be kept by leases.
ProviderWindow = Annotated[int | None, BeforeValidator(whole_or_auto(1_000, DAY_MS))]
Lasting = Annotated[int, BeforeValidator(whole(100, DAY_MS))]
RetentionDays = Annotated[int | None, BeforeValidator(whole(RETENTION_DAYS_MIN, RETENTION_DAYS_MAX))]
Days = Annotated[int, BeforeValidator(whole(0, 3650))]
Flag = Annotated[bool, BeforeValidator(flag)]
DatabaseUri = Annotated[str, AfterValidator(database_uri)]
Identifier = Annotated[str, AfterValidator(identifier)]
Body = Annotated[Mapping[str, Any] | None, NoDecode, BeforeValidator(request_fields)]
Prefix = Annotated[str | None, BeforeValidator(prefix)]


class Settings(BaseSettings):
    """One attribute per variable, named like it in lower case. Durations `_ms` are milliseconds.

    Built directly (`Settings(_env_file=None, embed_batch_size=7)`) it raises pydantic's `ValidationError`;
    programs use `load`, which raises `SettingsError` with one line per problem.
    """

    model_config = SettingsConfigDict(
        env_file=ENV_FILE, extra="ignore", frozen=True, hide_input_in_errors=True
    )

    neo4j_uri: DatabaseUri = "bolt://127.0.0.1:7687"
    neo4j_username: OptionalText = None
    neo4j_password: OptionalSecret = None
    neo4j_database: Identifier = "neo4j"
    neo4j_vector_index: Annotated[str, AfterValidator(graph_name())] = "entity_embeddings"
    neo4j_vector_dimensions: Dimensions = None
    neo4j_similarity_function: Annotated[str, AfterValidator(one_of("cosine", "euclidean"))] = "cosine"
    neo4j_client_certificate: Annotated[str | None, BeforeValidator(secret_files.certificate_file)] = None

    embed_job_database_uri: DatabaseUri = "bolt://127.0.0.1:7688"
    embed_job_database_username: OptionalText = None
    embed_job_database_password: OptionalSecret = None
    embed_job_database_name: Identifier = "embedding-jobs"

    celery_broker_url: Annotated[str, AfterValidator(redis_uri)] = Field(
        default="redis://127.0.0.1:6379/0", validation_alias=AliasChoices(*BROKER_NAMES)
    )

    embed_job_retention_days: RetentionDays = None
    embed_job_archive_days: Days = 90
    embed_dead_letter_alert: Annotated[int, BeforeValidator(whole(0, 1_000_000_000))] = 10
    embed_job_lock_duration_ms: Lasting = 300_000
    embed_job_start_deadline_ms: Lasting = 60_000
    embed_job_heartbeat_interval_ms: Lasting = 120_000
    embed_job_recovery_interval: Milliseconds = 60_000
    embed_job_max_retries: Annotated[int, BeforeValidator(whole(1, 100))] = 3
    embed_job_max_crashes: Annotated[int, BeforeValidator(whole(0, 100))] = 3
    embed_job_retry_base_delay_ms: Milliseconds = 1_000
    embed_job_retry_max_delay_ms: Milliseconds = 60_000
    embed_job_retry_multiplier: Annotated[float, BeforeValidator(decimal(1, 100))] = 2.0
    embed_job_retry_jitter_factor: Annotated[float, BeforeValidator(decimal(0, 1))] = 0.1

    embedding_rate_limit_tokens: RequestBudget = USUAL_LIMIT
    embedding_rate_limit_interval: Lasting = 60_000
    embedding_rate_limit_model_tokens: Budget = None
    embedding_provider_window: ProviderWindow = None
    embedding_price_per_million_tokens: Price = None

    embedding_provider: Annotated[str, AfterValidator(one_of("auto", "openai", "local", "mock"))] = "auto"
    embedding_profile: Annotated[str, AfterValidator(one_of(*PROFILE_NAMES))] = AUTO
    embedding_encoding_format: Annotated[str, AfterValidator(one_of(AUTO, FLOAT, BASE64, NO_ENCODING))] = AUTO
    embedding_extra_body: Body = None
    embedding_query_body: Body = None
    embed_passage_prefix: Prefix = None
    embed_query_prefix: Prefix = None
    openai_api_key: Annotated[SecretStr | None, BeforeValidator(header_value)] = None
    openai_base_url: Annotated[OptionalText, AfterValidator(web_address)] = None
    openai_embedding_model: Identifier = "text-embedding-3-small"
    openai_embedding_dimensions: Dimensions = None
    mock_embeddings: Flag = False
    mock_embedding_latency_ms: Annotated[int, BeforeValidator(whole(0, 600_000))] = 0

    embed_batch_size: BatchLimit = None
    embed_batch_tokens: BatchLimit = None
    embed_input_tokens: Annotated[int | None, BeforeValidator(whole(INPUT_TOKENS_MIN, 10_000_000))] = None
    embed_long_texts: Annotated[str, AfterValidator(one_of("truncate", "fail", "average"))] = "truncate"
    embed_request_timeout_ms: Lasting = 30_000
    embed_search_timeout_ms: Annotated[int, BeforeValidator(whole(100, SEARCH_TIMEOUT_MAX_MS))] = 2_000
    embed_cache_mb: Annotated[int, BeforeValidator(whole(0, CACHE_MAX_MB))] = 16
    embed_shutdown_grace_ms: Annotated[int, BeforeValidator(whole(0, GRACE_MAX_MS))] = 20_000

    embed_discovery: Annotated[
        tuple[str, ...],
        NoDecode,
        BeforeValidator(discovery(*SWEEP_EVERY_MS, reserved=VECTOR.properties)),
    ] = ("outbox", "missing")
    embed_discovery_intervals: Annotated[
        tuple[int, ...] | None, NoDecode, BeforeValidator(intervals(1_000, WEEK_MS))
    ] = None

    embed_entity_label: Annotated[str, AfterValidator(graph_name(*RESERVED_LABELS))] = "Entity"
    embed_entity_key: Annotated[str, AfterValidator(graph_name(*VECTOR.properties))] = "name"
    embed_deleted_property: Annotated[str | None, BeforeValidator(optional_name(*VECTOR.properties))] = (
        DELETED.name
    )
    embed_text_properties: Annotated[tuple[str, ...] | None, NoDecode, BeforeValidator(comma_list)] = None
    embed_text_template: Annotated[OptionalText, AfterValidator(template)] = None
    embed_fulltext_analyzer: Identifier = DEFAULT_ANALYZER

    log_level: Annotated[str, AfterValidator(one_of(*LOG_LEVELS))] = "INFO"
    log_format: Annotated[str, AfterValidator(one_of("json", "console"))] = "json"
    embed_log_content: Flag = False
    health_host: Identifier = "127.0.0.1"
    health_port: Annotated[int, BeforeValidator(whole(0, 65_535))] = 3001
    mcp_token: Annotated[SecretStr | None, BeforeValidator(bearer_token)] = None
    serve_token: Annotated[SecretStr | None, BeforeValidator(bearer_token)] = None

    @classmethod
    def load(cls, role: Role, *, needs_retention: bool = False) -> Self:
        """The settings of this process, or `SettingsError` with every problem, one line each.

        `EMBED_JOB_RETENTION_DAYS` has no default on purpose (how long evidence is kept is the operator's
        word): worker, beat and whoever asks with `needs_retention` refuse to go on without it.
        """
        trouble = env_file.trouble(ENV_FILE)
        if trouble is not None:
            # Alone: whatever else is wrong may be right in the file.
            raise SettingsError([trouble])
        settings, violations = cls._examine()
        lines = [violation.line for violation in violations]
        known_bad = {name for violation in violations for name in violation.attributes}
        required = needs_retention or role in (Role.WORKER, Role.BEAT)
        if (
            required
            and settings.embed_job_retention_days is None
            and "embed_job_retention_days" not in known_bad
        ):
            lines.append(
                "EMBED_JOB_RETENTION_DAYS is missing: required, "
                f"a whole number from {RETENTION_DAYS_MIN} to {RETENTION_DAYS_MAX}"
            )
        if lines:
            raise SettingsError(lines)
        return settings

    @classmethod
    def lenient(cls) -> Self:
        """The settings with the default in place of each wrong value, and without a `.env` that is no file of text.

        For `celeryconfig.py`, which every `celery` command imports, `--help` included.
        """
        return cls._examine()[0]

    @classmethod
    def _examine(cls) -> tuple[Self, list[Violation]]:
        """The settings with wrong ones at their defaults, and everything that is wrong."""
        replaced: dict[str, Any] = {} if env_file.trouble(ENV_FILE) is None else {"_env_file": None}
        found: list[Violation] = []
        # Each round gives at least one more setting its default, and the defaults agree with one another.
        while True:
            try:
                return cls(**replaced), found
            except ValidationError as error:
                violations = _violations_of(error)
            # A rule that reads a setting already found wrong says nothing of its own.
            found.extend(v for v in violations if replaced.keys().isdisjoint(v.attributes))
            for violation in violations:
                replaced.update({name: cls.model_fields[name].default for name in violation.attributes})

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],  # noqa: ARG003 - the signature is pydantic's
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """pydantic's own, with the secrets that stand in files (`NEO4J_PASSWORD_FILE`), and without an empty
        `CELERY_BROKER_URL` or `REDIS_URL`: it must not hide the other one."""
        for source in (env_settings, dotenv_settings):
            if isinstance(source, EnvSettingsSource):
                found = secret_files.with_secrets(source.env_vars, cls.names_in_files()).items()
                source.env_vars = {name: value for name, value in found if value or name not in BROKER_NAMES}
        return init_settings, env_settings, dotenv_settings, file_secret_settings

    # Not pydantic's `env_ignore_empty`: then `OPENAI_API_KEY= neo4j-queue ...` would use the key of `.env`.
    _empty = field_validator("*", mode="before")(unset_if_empty(except_for=("embed_deleted_property",)))
    _utf8 = field_validator("*", mode="before")(utf8)
    _unread = field_validator("*", mode="before")(secret_files.refuse_unread)

    @rules(mode="after")
    def _rules_over_several(self) -> Self:
        found = list(broken(self))
        if found:
            text = "; ".join(violation.line for violation in found)
            # The text goes in as a value: it may hold braces, which the message template would read.
            raise PydanticCustomError("settings_rules", "{text}", {"text": text, "violations": found})
        return self

    @rules(mode="after")
    def _no_limit_in_this_process(self) -> Self:
        """A model in this process has no limit, unless one is set: there is no account that it could use up."""
        if self.embedding_rate_limit_tokens is USUAL_LIMIT:
            limit = int(USUAL_LIMIT) if self.asks_a_provider else None
            object.__setattr__(self, "embedding_rate_limit_tokens", limit)  # frozen for everybody else
        return self

    @property
    def asks_a_provider(self) -> bool:
        """True if the vectors come from a provider, False if a model in this process makes them."""
        if self.mock_embeddings:
            return False
        if self.embedding_provider == "auto":
            return self.openai_api_key is not None
        return self.embedding_provider == "openai"

    def graph_address(self) -> Address:
        """Where the graph is."""
        return Address(
            self.neo4j_uri,
            self.neo4j_database,
            self.neo4j_username,
            _plain(self.neo4j_password),
            self.neo4j_client_certificate,
        )

    def jobs_address(self) -> Address:
        """Where the jobs database is."""
        return Address(
            self.embed_job_database_uri,
            self.embed_job_database_name,
            self.embed_job_database_username,
            _plain(self.embed_job_database_password),
            self.neo4j_client_certificate,
        )

    def deleted_property(self) -> DeletedProperty:
        """The property any value of which hides an entity."""
        return DeletedProperty(self.embed_deleted_property)

    def discovery(self) -> dict[str, int]:
        """The sweeps that beat runs, each with its interval in ms."""
        usual = [SWEEP_EVERY_MS.get(scope, CHANGED_EVERY_MS) for scope in self.embed_discovery]
        return dict(zip(self.embed_discovery, self.embed_discovery_intervals or usual, strict=True))

    def changed_properties(self) -> tuple[str, ...]:
        """The timestamps by which beat's sweeps find what changed."""
        changed = [scope for scope in self.embed_discovery if scope.startswith(CHANGED)]
        return tuple(scope.removeprefix(CHANGED) for scope in changed)

    @classmethod
    def secret_names(cls) -> list[str]:
        """The settings that are secrets."""
        return [name for name, field in cls.model_fields.items() if field.annotation == SecretStr | None]

    @classmethod
    def names_in_files(cls) -> list[str]:
        """The settings that may stand in a file: the secrets, and the broker's address, which may hold one."""
        return [*cls.secret_names(), BROKER_NAMES[0]]

    def secrets(self) -> list[str]:
        """Every secret in plain text, for the redaction of logs."""
        passwords = [getattr(self, name) for name in self.secret_names()]
        broker = urlsplit(self.celery_broker_url).password or ""
        # As it is written in the address, and as it is meant.
        return [
            text for text in (*(_plain(password) for password in passwords), broker, unquote(broker)) if text
        ]


def _plain(secret: SecretStr | None) -> str | None:
    return None if secret is None else secret.get_secret_value()


def _violations_of(error: ValidationError) -> list[Violation]:
    """pydantic's error as lines for people: variable, value unless secret, what is allowed."""
    found: list[Violation] = []
    for detail in error.errors(include_url=False):
        context = detail.get("ctx", {})
        if detail["type"] == "settings_rules":
            found.extend(context["violations"])
            continue
        attribute = str(detail["loc"][0]).lower()
        if attribute in BROKER_NAMES:
            attribute = BROKER_NAMES[0]
        names = BROKER_NAMES if attribute in BROKER_NAMES else (attribute,)
        variable = " or ".join(name.upper() for name in names)
        # What could not be read says so itself.
        secret = attribute in Settings.secret_names() or isinstance(detail["input"], secret_files.Unread)
        value = "" if secret else shown(detail["input"], address=attribute.endswith(("_uri", "_url")))
        found.append(Violation((attribute,), f"{variable}{value}: {context.get('error', detail['msg'])}"))
    return found

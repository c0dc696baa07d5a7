"""The rules over several settings: each that is broken is one line that names the variables."""

import operator
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from neo4j_queue.names import VECTOR
from neo4j_queue.text import TextRecipe

if TYPE_CHECKING:
    from neo4j_queue.settings.settings import Settings


class Violation(NamedTuple):
    """A rule over several settings that does not hold: the attributes it reads, and the line for people."""

    attributes: tuple[str, ...]
    line: str


# (left, right, does it hold, what is allowed): rules between two numbers, checked for every load.
ORDER_RULES: tuple[tuple[str, str, Callable[[int, int], bool], str], ...] = (
    # Two beats must fit into a lock, so that one that is missed does not lose running work.
    (
        "embed_job_heartbeat_interval_ms",
        "embed_job_lock_duration_ms",
        lambda heartbeat, lock: heartbeat * 2 < lock,
        "must be less than half of",
    ),
    (
        "embed_job_start_deadline_ms",
        "embed_job_lock_duration_ms",
        operator.lt,
        "must be less than",
    ),
    # A worker busy with one request must still be able to start the batch that waits behind it.
    (
        "embed_job_start_deadline_ms",
        "embed_request_timeout_ms",
        operator.gt,
        "must be more than",
    ),
    # The other half of the lock is for reading, writing and one missed heartbeat.
    (
        "embed_request_timeout_ms",
        "embed_job_lock_duration_ms",
        lambda request, lock: request * 2 <= lock,
        "must be at most half of",
    ),
    (
        "embed_job_retry_max_delay_ms",
        "embed_job_retry_base_delay_ms",
        operator.ge,
        "must not be less than",
    ),
)


def broken(s: "Settings") -> Iterator[Violation]:
    """The rules over several settings that do not hold."""
    for left, right, holds, allowed in ORDER_RULES:
        one, other = getattr(s, left), getattr(s, right)
        if not holds(one, other):
            yield Violation((left, right), f"{left.upper()}={one}: {allowed} {right.upper()} ({other})")
    if s.embed_discovery_intervals and len(s.embed_discovery_intervals) != len(s.embed_discovery):
        names = ("embed_discovery", "embed_discovery_intervals")
        count = len(s.embed_discovery)
        given = ",".join(map(str, s.embed_discovery_intervals))
        line = f"EMBED_DISCOVERY_INTERVALS={given}: must be {count} numbers, one for each of EMBED_DISCOVERY"
        yield Violation(names, line)
    if s.embed_text_properties is not None and s.embed_text_template is not None:
        both = ("embed_text_properties", "embed_text_template")
        yield Violation(both, "EMBED_TEXT_PROPERTIES and EMBED_TEXT_TEMPLATE: set one of them, not both")
    yield from _of_deleted(s)
    ours = VECTOR.properties.intersection(TextRecipe.from_settings(s).properties)
    if ours:
        sources = ("embed_text_template", "embed_text_properties", "embed_entity_key")
        chosen = next(name for name in sources if getattr(s, name) is not None)
        line = f"{chosen.upper()}: {', '.join(sorted(ours))} cannot be part of the text, vectors change it"
        yield Violation(sources, line)
    for database in ("neo4j", "embed_job_database"):
        user, password = f"{database}_username", f"{database}_password"
        if (getattr(s, user) is None) != (getattr(s, password) is None):
            absent, present = (user, password) if getattr(s, user) is None else (password, user)
            line = f"{absent.upper()} is missing: required when {present.upper()} is set"
            yield Violation((user, password), line)
    if s.neo4j_client_certificate and not (s.graph_address().encrypted or s.jobs_address().encrypted):
        line = (
            "NEO4J_CLIENT_CERTIFICATE is shown over TLS alone: set NEO4J_URI, EMBED_JOB_DATABASE_URI or both to "
            "bolt+s:// or neo4j+s://"
        )
        yield Violation(("neo4j_client_certificate",), line)
    if _store(s.neo4j_uri, s.neo4j_database) == _store(s.embed_job_database_uri, s.embed_job_database_name):
        yield Violation(
            ("neo4j_uri", "neo4j_database", "embed_job_database_uri", "embed_job_database_name"),
            f"EMBED_JOB_DATABASE_URI={s.embed_job_database_uri}: database {s.embed_job_database_name} there "
            "is the graph itself; jobs need a database of their own (on Community: a server of their own)",
        )


def _of_deleted(s: "Settings") -> Iterator[Violation]:
    """What hides an entity can neither name it nor be part of its text: every entity has a name, and most a text."""
    hiding = s.embed_deleted_property
    if hiding is None:
        return
    if hiding == s.embed_entity_key:
        line = (
            f"EMBED_ENTITY_KEY={hiding}: is EMBED_DELETED_PROPERTY too, any value of which hides an entity; "
            "choose another one of the two"
        )
        yield Violation(("embed_deleted_property", "embed_entity_key"), line)
    elif hiding in TextRecipe.from_settings(s).properties:
        line = f"EMBED_DELETED_PROPERTY={hiding}: is part of the text, and any value of it hides an entity"
        sources = ("embed_deleted_property", "embed_text_template", "embed_text_properties")
        yield Violation(sources, line)


def _store(uri: str, database: str) -> tuple[str, int, str]:
    """What a URI and a name point at, whatever the scheme and spelling."""
    parts = urlsplit(uri)
    host = (parts.hostname or "").lower()
    return ("127.0.0.1" if host == "localhost" else host, parts.port or 7687, database.lower())

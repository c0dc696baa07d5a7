"""Which database an error of the driver is about: the driver names a port, people know settings."""

import re
from typing import NamedTuple
from urllib.parse import urlsplit

from neo4j.exceptions import ServiceUnavailable, SessionExpired

from neo4j_queue.errors.explain import explain
from neo4j_queue.settings import Settings

BOLT_PORT = 7687
# What the driver says of a server that takes connections and says nothing: it is frozen, or starved of its processor.
SILENT = ("handshake", "timed out", "deadline")


def unreachable_database(error: Exception, settings: Settings) -> str | None:
    """One line that names the database that cannot be reached, its variable and its address; None for other errors."""
    found = _found(error, settings)
    return found and f"{found.name} ({found.place}) {found.why}"


def why_unreachable(error: Exception, settings: Settings) -> str:
    """Why a database cannot be used, for who has named it already."""
    found = _found(error, settings)
    return f"{found.place} {found.why}" if found else explain(error)


class _Found(NamedTuple):
    """Which database cannot be reached, where it is by the settings, and why."""

    name: str
    place: str
    why: str


def _found(error: Exception, settings: Settings) -> _Found | None:
    if not isinstance(error, ServiceUnavailable | SessionExpired):
        return None
    said = explain(error)
    named = {
        ("the jobs database", "EMBED_JOB_DATABASE_URI"): settings.embed_job_database_uri,
        ("the graph", "NEO4J_URI"): settings.neo4j_uri,
    }
    # With what ends it: 7687 is the beginning of 76870.
    places = set(re.findall(r"[\w.:\[\]-]+:\d+", said))
    for (name, variable), uri in named.items():
        if _place(uri) in places:
            return _Found(name, f"{variable}={uri}", _why(said))
    return None


def _place(uri: str) -> str:
    """Host and port as the driver writes them."""
    parts = urlsplit(uri)
    return f"{parts.hostname}:{parts.port or BOLT_PORT}"


def _why(said: str) -> str:
    lower = said.lower()
    if "refused" in lower:
        return "refuses connections: no server runs there"
    if any(word in lower for word in SILENT):
        return "takes connections and does not answer: it is frozen, or the machine too busy"
    return f"cannot be reached: {said}"

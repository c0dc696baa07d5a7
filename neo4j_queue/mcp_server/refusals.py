"""Why a tool did not do what it was asked for: one line, without secrets and without a stack trace."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from pydantic import ValidationError

from neo4j_queue.checks.boot import missing_database
from neo4j_queue.errors import FaultKind, Neo4jQueueError, SettingsError, classify
from neo4j_queue.errors.explain import explain
from neo4j_queue.log import get_logger
from neo4j_queue.settings import Settings
from neo4j_queue.settings.readers import without_password
from neo4j_queue.wellformed import visible

# An agent reads the first lines of a list of mistakes and puts them all right.
MISTAKES_SHOWN = 5
# Of a message: a provider's page of HTML is no reason.
REASON_CHARS = 1_000
HIDDEN = "***"
# A shorter secret is a word that texts have too: hidden in them, it would be told by what is missing.
SECRET_CHARS = 8

log = get_logger()


class PartlyDone(Neo4jQueueError):
    """A call of several acts failed in the middle. `done`: the entities whose acts were done; the cause says why."""

    def __init__(self, done: Sequence[str]) -> None:
        super().__init__("partly done")
        self.done = tuple(done)


@contextmanager
def telling(done: Sequence[str]) -> Iterator[None]:
    """Adds to an error what was done before it."""
    try:
        yield
    except Exception as error:
        if not done:
            raise
        raise PartlyDone(done) from error


def reason_of(error: Exception, settings: Settings, tool: str) -> str:
    """Why the call of a tool failed. What nothing foresaw is written to the log with its stack."""
    if isinstance(error, PartlyDone) and isinstance(error.__cause__, Exception):
        line = f"{reason_of(error.__cause__, settings, tool)}; done before that: {', '.join(error.done)}"
    elif isinstance(error, ValidationError):
        line = _mistakes(error)
    elif isinstance(error, SettingsError):
        line = "; ".join(error.problems)
    elif isinstance(error, Neo4jQueueError | ValueError):
        line = str(error)
    elif (missing := missing_database(error, settings)) is not None:
        line = missing
    elif classify(error).kind is FaultKind.UNKNOWN:
        log.error("mcp_tool_failed", tool=tool, exc_info=error)
        line = f"unexpected {type(error).__name__}: {explain(error)} (the server's log has more)"
    else:
        line = f"{explain(error)} (`neo4j-queue doctor` looks at every part)"
    return one_line(line, settings.secrets())


def one_line(text: str, secrets: Sequence[str]) -> str:
    """The text as one line of bounded length, without secrets."""
    line = without_password(visible(text.replace("\n", "; ")))
    for secret in secrets:
        line = line.replace(secret, HIDDEN)
    return line if len(line) <= REASON_CHARS else line[: REASON_CHARS - 1] + "…"


def without_secrets(value: object, secrets: Sequence[str]) -> object:
    """An answer in which every secret of the settings is hidden, also in the data of the graph."""
    long = [secret for secret in secrets if len(secret) >= SECRET_CHARS]
    return _hidden(value, long) if long else value


def _hidden(value: object, secrets: Sequence[str]) -> object:
    match value:
        case str():
            for secret in secrets:
                value = value.replace(secret, HIDDEN)
            return value
        case dict():
            return {str(_hidden(name, secrets)): _hidden(item, secrets) for name, item in value.items()}
        case list():
            return [_hidden(item, secrets) for item in value]
        case _:
            return value


def _mistakes(error: ValidationError) -> str:
    found = error.errors(include_url=False, include_input=False)
    lines = [
        f"{'.'.join(map(str, each['loc'])) or 'arguments'}: {each['msg'].removeprefix('Value error, ')}"
        for each in found
    ]
    more = f"; and {len(lines) - MISTAKES_SHOWN} more" if len(lines) > MISTAKES_SHOWN else ""
    return "; ".join(lines[:MISTAKES_SHOWN]) + more

"""What people may give to the tasks that they call by hand: words of a list, numbers, ids.

JSON on a command line is easily wrong, and a wrong word that is only looked for finds nothing: that reads like success.
"""

import re
import reprlib
from enum import StrEnum
from typing import TypeVar

from neo4j_queue import pauses
from neo4j_queue.cypher import unquotable
from neo4j_queue.errors import ErrorCategory, Neo4jQueueError
from neo4j_queue.jobs import FailureReason
from neo4j_queue.reconcile.sweep import Scope
from neo4j_queue.reconcile.watermark import Changed
from neo4j_queue.settings.readers import CHANGED
from neo4j_queue.wellformed import is_well_formed

HTTP_MIN, HTTP_MAX = 100, 599

Word = TypeVar("Word", bound=StrEnum)


class BadArgument(Neo4jQueueError):
    """An argument that nothing can come of: which, what it may be, and what it was."""

    exit_code = 2  # usage

    def __init__(self, name: str, wanted: str, given: object) -> None:
        shown = given if isinstance(given, str) and re.fullmatch(r"\w{1,40}", given) else reprlib.repr(given)
        super().__init__(f"{name}: {wanted}, not {shown}")


def category(value: object) -> str | None:
    """The error category that is meant; None = any. Raises `BadArgument`, as all of these do."""
    return _word("category", value, ErrorCategory)


def reason(value: object) -> str | None:
    """The failure reason that is meant; None = any."""
    return _word("reason", value, FailureReason)


def scope(value: object) -> Scope | Changed:
    """What a sweep looks at."""
    if isinstance(value, str) and value.startswith(CHANGED):
        why = unquotable(value.removeprefix(CHANGED))
        if why is not None:
            raise BadArgument("scope", f"{CHANGED}PROPERTY, of which the property must be {why}", value)
        return Changed(value.removeprefix(CHANGED))
    return _one_of("scope", value, Scope)


def http_status(value: object) -> int | None:
    """The HTTP status that is meant, a number or a numeric string; None = any."""
    return _number("status", value, HTTP_MIN, HTTP_MAX, f"an HTTP status, {HTTP_MIN} to {HTTP_MAX}")


def limit(value: object) -> int | None:
    """How many at most, a number or a numeric string; None = all."""
    return _number("limit", value, 1, None, "a whole number, 1 or more")


def flag(name: str, value: object) -> bool:
    """A yes or a no."""
    if not isinstance(value, bool):
        raise BadArgument(name, "true or false", value)
    return value


def seconds(value: object) -> float:
    """How long a pause is to last, a number or a numeric string."""
    try:
        return pauses.meant(value)
    except ValueError:
        wanted = f"a number of seconds, more than 0 and at most {pauses.LONGEST_S} (a year)"
        raise BadArgument("seconds", wanted, value) from None


def job_ids(value: object) -> list[str]:
    """The ids of a list; one id alone is a list of one."""
    ids = [value] if isinstance(value, str) else value
    if not isinstance(ids, list | tuple):
        raise BadArgument("job_ids", "a list of ids", value)
    return [text("job_ids", each, "a list of ids, each a text") for each in ids]


def entity_name(value: object) -> str:
    """The name of an entity: a text, or the whole number that it is."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return text("entity_name", value, "a text or a whole number")


def text(name: str, value: object, wanted: str = "a text") -> str:
    """A text that can be stored: no number, and no half of a character either."""
    if not isinstance(value, str) or not is_well_formed(value):
        raise BadArgument(name, wanted, value)
    return value


def _word(name: str, value: object, words: type[Word]) -> str | None:
    return None if value is None else _one_of(name, value, words).value


def _one_of(name: str, value: object, words: type[Word]) -> Word:
    found = next((word for word in words if isinstance(value, str) and word.lower() == value.lower()), None)
    if found is None:
        raise BadArgument(name, f"one of {', '.join(words)}", value)
    return found


def _number(name: str, value: object, least: int, most: int | None, wanted: str) -> int | None:
    if value is None:
        return None
    number = None
    if isinstance(value, int) and not isinstance(value, bool):
        number = value
    elif isinstance(value, str) and re.fullmatch(r"\s*\d{1,18}\s*", value):
        number = int(value)
    if number is None or number < least or (most is not None and number > most):
        raise BadArgument(name, wanted, value)
    return number

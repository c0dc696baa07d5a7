"""What callers may write: keys, properties and types that the graph can hold. A refusal names the entry."""

from collections.abc import Collection, Mapping, Sequence
from datetime import date, time, timedelta
from types import NoneType
from typing import Any

import neo4j.time
from neo4j.spatial import Point

from neo4j_queue.cypher import NAME_MAX
from neo4j_queue.graph.entities import Relation
from neo4j_queue.graph.keys import WHOLE_MAX, WHOLE_MIN, Key, named
from neo4j_queue.wellformed import is_well_formed

# An index of the server holds about 8,160 bytes for one node. The jobs' index has the model and the version beside the
# key, so a longer one could be stored and never be queued.
KEY_BYTES = 8_000
# Of what is quoted in a message.
SHOWN = 80
# What the driver can send as a value. (A datetime is a date, a point is a tuple.)
COMPARABLE = (
    *(NoneType, bool, int, float, str, bytes, bytearray, date, time, timedelta),
    *(neo4j.time.Date, neo4j.time.Time, neo4j.time.DateTime, neo4j.time.Duration, Point),
)


def checked_key(value: Any, key: str) -> Key:
    """The key of an entity. Raises ValueError for what cannot name one."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool):
        if not WHOLE_MIN <= value <= WHOLE_MAX:
            raise ValueError(
                f"the `{key}` {value} is a whole number of more than 64 bits, which cannot be stored"
            )
        return value
    if not isinstance(value, str) or not value:
        raise ValueError(f"an entity needs a text or a whole number in `{key}`, not {_shown(value)}")
    if not any(character.isprintable() and not character.isspace() for character in value):
        raise ValueError(
            f"the `{key}` {_shown(value)} is blank: commands and tasks could not name such an entity"
        )
    if "\0" in value:
        raise ValueError(
            f"the `{key}` {_shown(value)} holds a nul character, which no command line can pass on"
        )
    if not is_well_formed(value):
        raise ValueError(f"the `{key}` {_shown(value)} holds half of a character, which cannot be stored")
    size = len(value.encode())
    if size > KEY_BYTES:
        raise ValueError(
            f"the `{key}` {_shown(value)} has {size:,} bytes, more than the {KEY_BYTES:,} that indexes take"
        )
    return value


def checked_name(name: str | int) -> str:
    """The name of an entity as a text. Raises ValueError for what no entity can have, or the driver cannot send."""
    uid = named(name)
    if not is_well_formed(uid):
        raise ValueError(f"entity {_shown(uid)}: half of a character stands in its key")
    return uid


def check_properties(uid: str, properties: Mapping[str, Any], own: Collection[str] = ()) -> None:
    """Raises ValueError for a property that is this library's `own` or that the server cannot store."""
    reserved = sorted(name for name in properties if name in own)
    if reserved:
        raise ValueError(
            f"entity {_shown(uid)}: written by the vector write or the soft delete alone: {', '.join(reserved)}"
        )
    for name, value in properties.items():
        if not isinstance(name, str) or not name or "\0" in name or not is_well_formed(name):
            raise ValueError(f"entity {_shown(uid)}: {_shown(name)} cannot be the name of a property")
        if problem := _unstorable(value):
            raise ValueError(f"entity {_shown(uid)}: `{name}` {problem}, which cannot be stored")


def checked_observations(name: str, observations: Sequence[str]) -> list[str]:
    """The observations as a list. Raises ValueError for one text alone, and for what is no text."""
    if isinstance(observations, str) or not all(isinstance(each, str) for each in observations):
        raise ValueError(
            f"entity {_shown(name)}: observations are a list of texts, not {_shown(observations)}"
        )
    found = list(observations)
    check_properties(name, {"observations": found})
    return found


def checked_limit(limit: int) -> int:
    """Raises ValueError for a limit below 1."""
    if limit < 1:
        raise ValueError(f"limit={limit}: 1 or more")
    return limit


def filterable(value: Any) -> str | None:
    """Why no property can be compared with this value, as the end of a sentence; None if one can."""
    if problem := _unstorable(value):
        return f"{problem}, which no property can have"
    items = value if isinstance(value, list | tuple) else (value,)
    kinds = {type(item).__name__ for item in items if not isinstance(item, COMPARABLE)}
    return f"is of type {', '.join(sorted(kinds))}, which no property can have" if kinds else None


def _unstorable(value: Any) -> str | None:
    """Why a property cannot have this value; None if it can, as far as is known here."""
    several = isinstance(value, list | tuple)
    items = value if several else (value,)
    if _are_texts(items):  # nearly all properties are; a load checks a million of them
        return None if is_well_formed("".join(items)) else "holds half of a character"
    if any(
        isinstance(item, Mapping | set | frozenset) or (several and isinstance(item, list)) for item in items
    ):
        return "holds a map, a set or a list in a list"
    if any(isinstance(item, str) and not is_well_formed(item) for item in items):
        return "holds half of a character"
    if any(isinstance(item, int) and not WHOLE_MIN <= item <= WHOLE_MAX for item in items):
        return "holds a whole number of more than 64 bits"
    kinds = {type(item) for item in items}
    if len(kinds) > 1 and kinds != {int, float}:
        return f"is a list of several kinds ({', '.join(sorted(kind.__name__ for kind in kinds))})"
    return None


def _are_texts(items: Sequence[Any]) -> bool:
    return all(type(item) is str for item in items)


def checked_relation(given: Relation | tuple[str | int, str, str | int]) -> Relation:
    """What is given as a relation. Raises ValueError for what is none."""
    if isinstance(given, Relation):
        return given
    if isinstance(given, list | tuple) and len(given) == 3:
        return Relation(*given)
    raise ValueError(f"a relation is a Relation or (source, type, target), not {_shown(given)}")


def check_type(relation: Relation) -> None:
    """Raises ValueError for what cannot be the type of a relation; any other text can, whatever it looks like."""
    kind: object = relation.type
    # The server refuses an empty type and a nul, and keeps each new type for good: a page of text is a mistake.
    if not isinstance(kind, str) or not kind.strip() or "\0" in kind or not is_well_formed(kind):
        wanted = "a text that is not blank, without nul characters and halves of characters"
    elif len(kind) > NAME_MAX:
        wanted = f"a text of at most {NAME_MAX:,} characters"
    else:
        return
    ends = f"{_shown(relation.source)} -> {_shown(relation.target)}"
    raise ValueError(f"the type of the relation {ends} must be {wanted}: {_shown(kind)}")


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"

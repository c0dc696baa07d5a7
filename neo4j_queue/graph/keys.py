"""The keys of entities: texts or whole numbers, what names them, their order, and entities that no name can reach.

Jobs, commands and people name an entity by a text. A key may be that text, or the whole number that is written so: both
are looked up, each by the index of the key. So nothing depends on which kind a graph has, or had a moment ago.

42.0 is the number 42: to the server the two are equal, and programs in JavaScript store all their numbers so.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from neo4j_queue.cypher import quote, statement
from neo4j_queue.database import Database
from neo4j_queue.names import DELETED, DeletedProperty

# A key as it is given, and as it is stored: as a place between keys also a decimal number that is none.
Key = str | int
Place = str | int | float

# The server's whole numbers.
WHOLE_MIN, WHOLE_MAX = -(2**63), 2**63 - 1
# "042", "+42" and "4e2" are texts and nothing else: a number has one way to be written.
_WHOLE = re.compile(r"0|-?[1-9][0-9]{0,18}", re.ASCII)

# All keys in their order: texts first, then numbers. These are before and after all of a kind; the last one is no
# character of any text.
BEFORE_TEXTS, AFTER_TEXTS = "", "\U0010ffff"
BEFORE_NUMBERS, AFTER_NUMBERS = float("-inf"), float("inf")

# Entities that are looked at for a person who waits: a tenth of a second. A sweep of all counts the rest.
SAMPLE = 200_000
# Numbers among which whole ones are looked for: a graph whose first thousand are decimal has no whole ones to speak of.
SAMPLE_OF_NUMBERS = 1_000


def named(name: object) -> str:
    """What names an entity, as jobs and messages write it. Raises ValueError for what names none."""
    if isinstance(name, str):
        return name
    if isinstance(name, int | float) and not isinstance(name, bool) and name == name // 1:
        return str(int(name))
    raise ValueError(f"an entity is named by a text or a whole number, not {name!r:.80}")


def name_of(key: object) -> str | None:
    """What names the entity that has this in the property of its key; None if nothing can."""
    try:
        return named(key) or None
    except ValueError:
        return None


def number_of(name: str) -> int | None:
    """The whole number that is written so and that a node can have; None if there is none."""
    if not _WHOLE.fullmatch(name):
        return None
    number = int(name)
    return number if WHOLE_MIN <= number <= WHOLE_MAX else None


def keys_of(name: str) -> list[Key]:
    """The keys that a name may stand for, the text first: what statements look up."""
    number = number_of(name)
    return [name] if number is None else [name, number]


def order(place: Place) -> tuple[bool, Any]:
    """Sorts keys as pages do: texts first, then numbers by their size."""
    return (not isinstance(place, str), place)


def end_of(place: Place) -> Place:
    """The place after all keys of the kind of this one."""
    return AFTER_TEXTS if isinstance(place, str) else AFTER_NUMBERS


def stored_keys(
    given: Mapping[str, Key], *, texts: bool, numbers: bool, there: Iterable[Place]
) -> dict[str, Place]:
    """The key that each name is stored with. `texts`, `numbers`: whether the graph has such keys; `there`: the keys
    that some of the names have already.

    An entity that is there keeps its key. A new one gets the kind that the others have; where these are of both kinds,
    or there are none, the kind that was given. Raises ValueError for a key that would be the first of its kind: it is
    a mistake in all likelihood, and no other program would look for it.
    """
    known: dict[str, list[Place]] = {}
    for key in there:
        known.setdefault(named(key), []).append(key)
    if not (texts or numbers):
        numbers = any(isinstance(key, int) for key in given.values())
        texts = any(isinstance(key, str) and number_of(key) is None for key in given.values())
        if texts and numbers:
            raise ValueError(_mixture("keys are of one kind", given))
    stored: dict[str, Place] = {}
    for name, key in given.items():
        found = known.get(name, ())
        number = number_of(name)
        if found:
            stored[name] = key if key in found else found[0]
        elif isinstance(key, int) and texts and not numbers:
            raise ValueError(f"the keys are texts: the number {key} would be the first one among them")
        elif isinstance(key, str) and numbers and not texts:
            if number is None:
                raise ValueError(
                    f"the keys are whole numbers: {key!r:.80} would be the first text among them"
                )
            stored[name] = number
        else:
            stored[name] = key
    return stored


def _mixture(rule: str, given: Mapping[str, Key]) -> str:
    number = next(key for key in given.values() if isinstance(key, int))
    text = next(key for key in given.values() if isinstance(key, str) and number_of(key) is None)
    return f"{rule}: {number} is a number, and {text!r:.80} is a text"


def mixed_keys(graph: Database, label: str, key: str, most: int = SAMPLE) -> list[str]:
    """The lines about keys of both kinds, of the first `most` of each; none where there is one kind."""
    (row,) = graph.read(statement("graph/mixed_keys", label=label, key=key), most=most)
    if not (row["texts"] and row["numbers"]):
        return []
    counts = [f"{row[kind]:,}{' or more' if row[kind] >= most else ''}" for kind in ("texts", "numbers")]
    lines = [
        f"the `{key}` of :{label} is a text at {counts[0]} (such as {row['text']!r:.80}) and a whole number at "
        f"{counts[1]}: both get vectors, but a program that looks for one kind does not find the other"
    ]
    if row["twins"]:
        lines.append(
            f"{row['twins']:,} names belong to a text and to a number of :{label}, such as {row['twin']}: commands and "
            "jobs that name one of the two mean both"
        )
    return lines


def without_key(
    graph: Database, label: str, key: str, *, among: str | None = None, deleted: DeletedProperty = DELETED
) -> int:
    """How many current entities have no usable key and are never embedded; `among`: those with this label too.

    Where there are none, only counts are compared.
    """
    query = statement("graph/without_key", among=among or label, label=label, key=key, **deleted.identifiers)
    return int(graph.read(query)[0]["entities"])


def without_key_of(
    graph: Database, label: str, key: str, most: int = SAMPLE, *, deleted: DeletedProperty = DELETED
) -> tuple[int, bool]:
    """As `without_key`, of the first `most` entities, for a person who waits. False: these were not all."""
    query = statement("graph/without_key_of", label=label, key=key, **deleted.identifiers)
    (row,) = graph.read(query, most=most)
    return int(row["entities"]), row["nodes"] <= most


def left_out(count: int, label: str, key: str) -> str:
    """The line about so many entities that can never be embedded, and what to do about it."""
    node, prop = f"(n:{quote(label)})", f"n.{quote(key)}"
    text = f"toStringOrNull({prop})"
    # The value itself stays, since other programs may look for it.
    value = f"CASE WHEN {text} > '' THEN {text} ELSE randomUUID() END"
    return (
        f"{in_short(count, label, key)}: "
        f"give them one, such as MATCH {node} SET n.uid = {value} with EMBED_ENTITY_KEY=uid"
    )


def in_short(count: int, label: str, key: str) -> str:
    """The line without what to do about it, for commands that people repeat."""
    return (
        f"{count:,} :{label} without a text or a whole number in `{key}` (it is missing, empty, or of another kind) "
        "will never get a vector"
    )


def lists_of(names: Sequence[str]) -> list[list[Key]]:
    """The keys of several names, as a parameter of a statement."""
    return [keys_of(name) for name in names]

"""Entities whose key cannot name them."""

from neo4j_queue.cypher import quote, statement
from neo4j_queue.database import Database

# Entities that are looked at for a person who waits: a tenth of a second. A sweep of all counts the rest.
SAMPLE = 200_000


def without_key(graph: Database, label: str, key: str, *, among: str | None = None) -> int:
    """How many current entities have no text as their key and are never embedded; `among`: those with this label too.

    Where there are none, only two counts are compared.
    """
    query = statement("graph/without_key", among=among or label, label=label, key=key)
    return int(graph.read(query)[0]["entities"])


def without_key_of(graph: Database, label: str, key: str, most: int = SAMPLE) -> tuple[int, bool]:
    """As `without_key`, of the first `most` entities, for a person who waits. False: these were not all."""
    query = statement("graph/without_key_of", label=label, key=key)
    (row,) = graph.read(query, most=most)
    return int(row["entities"]), row["nodes"] <= most


def left_out(count: int, label: str, key: str) -> str:
    """The line about so many entities that can never be embedded, and what to do about it."""
    node, named = f"(n:{quote(label)})", f"n.{quote(key)}"
    text = f"toStringOrNull({named})"
    # The number itself stays, since other programs may look for it.
    value = f"CASE WHEN {text} > '' THEN {text} ELSE randomUUID() END"
    return (
        f"{in_short(count, label, key)}: "
        f"give them one, such as MATCH {node} SET n.uid = {value} with EMBED_ENTITY_KEY=uid"
    )


def in_short(count: int, label: str, key: str) -> str:
    """The line without what to do about it, for commands that people repeat."""
    return f"{count:,} :{label} without a text in `{key}` (it is missing, empty, or a number) will never get a vector"

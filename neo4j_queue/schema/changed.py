"""The index on a timestamp of other programs, by which a sweep of changes finds what changed."""

from collections.abc import Mapping

from neo4j_queue.cypher import quote, statement
from neo4j_queue.database import Database
from neo4j_queue.schema.indexes import Index, create_index, indexes

NEEDS = "run neo4j-queue init"


def index_name(label: str, changed: str) -> str:
    """The name of the index that `init` makes where there is none."""
    return f"{label}_{changed}_changed"


def why_no_look(graph: Database, label: str, changed: str) -> str | None:
    """Why a sweep of changes has no index to go by, and what to do; None if it has one."""
    usable = usable_indexes(indexes(graph), label, changed)
    if any(index.state == "ONLINE" for index in usable):
        return None
    where = f"(:{quote(label)} {{{quote(changed)}}})"
    if not usable:
        return f"no range index on {where}: {NEEDS}"
    return f"the index {usable[0].name} on {where} is not there yet: {usable[0].state.lower()}"


def usable_indexes(there: Mapping[str, Index], label: str, changed: str) -> list[Index]:
    """The range indexes on this property alone, whoever made them."""
    return [index for index in there.values() if index.type == "RANGE" and index.covers(label, changed)]


def create(graph: Database, there: Mapping[str, Index], label: str, changed: str) -> str | None:
    """Makes the index where no usable one is there; its name if it did."""
    if usable_indexes(there, label, changed):
        return None
    name = index_name(label, changed)
    return create_index(graph, name, statement("schema/entity_changed", name=name, label=label, key=changed))


def problems(there: Mapping[str, Index], label: str, changed: str) -> list[str]:
    """One line if no usable index is there."""
    if usable_indexes(there, label, changed):
        return []
    return [f"no index on (:{label} {{{changed}}}), which EMBED_DISCOVERY needs: {NEEDS}"]

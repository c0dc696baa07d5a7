"""Indexes that `init` made under other settings, which stay until a person drops them."""

from collections.abc import Iterator, Mapping

from neo4j_queue.names import OUTBOX_LABEL
from neo4j_queue.schema.changed import index_name
from neo4j_queue.schema.graph_schema import GraphSchema
from neo4j_queue.schema.indexes import Index


def leftovers(schema: GraphSchema, there: Mapping[str, Index]) -> list[tuple[str, str]]:
    """What labels and keys of earlier settings left behind: what it is, and the statement that drops it.

    Only what no other program would make is named: the index of the outbox, that of the content hashes and those of
    timestamps, and the constraint of a label and key that have one of the first two. A deployment with other settings
    may use them.
    """
    ours = {index.name: index for index in _ours(schema, there)}
    return [
        (f"{index.type} index {index.name} on {index.labels[0]}({index.properties[0]})", _drop(index))
        for index in ours.values()
        if index.name not in schema.names
    ]


def _ours(schema: GraphSchema, there: Mapping[str, Index]) -> Iterator[Index]:
    ranges = [index for index in there.values() if index.type == "RANGE" and len(index.properties) == 1]
    outbox = [
        i for i in ranges if i.labels == [OUTBOX_LABEL] and i.name == f"{OUTBOX_LABEL}_{i.properties[0]}"
    ]
    hashes = [
        i
        for i in ranges
        if i.properties == [schema.vector.hash] and i.name == f"{i.labels[0]}_{schema.vector.hash}"
    ]
    yield from outbox
    yield from hashes
    yield from (i for i in ranges if i.name == index_name(i.labels[0], i.properties[0]))
    keys = {index.properties[0] for index in outbox}
    labels = {index.labels[0] for index in hashes}
    for index in ranges:
        label, key = index.labels[0], index.properties[0]
        if index.name == f"{label}_{key}_key" and (key in keys and label in labels):
            yield index


def _drop(index: Index) -> str:
    kind, name = ("CONSTRAINT", index.constraint) if index.constraint else ("INDEX", index.name)
    return f"DROP {kind} `{name}` IF EXISTS"

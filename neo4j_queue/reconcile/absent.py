"""A name that no entity in scope has: what stands there instead."""

from collections.abc import Sequence

from neo4j_queue import schema
from neo4j_queue.cypher import quote
from neo4j_queue.graph import EntityGraph
from neo4j_queue.graph.keys import number_of
from neo4j_queue.graph.look import LookedAt, Otherwise, labels_with, named_otherwise, near_keys
from neo4j_queue.reconcile.commands import command
from neo4j_queue.reconcile.explanation import Cause, Reason

# Characters of a key in a sentence.
SHOWN = 80


def why_absent(graph: EntityGraph, name: str, deleted: Sequence[LookedAt]) -> list[Cause]:
    """Why no entity in scope has this key. `deleted`: the soft-deleted ones that have it."""
    if not name.strip():
        why = f"the key `{graph.key}` is blank, and a blank text names no entity"
        return [Cause(Reason.UNUSABLE_KEY, why, False)]
    if deleted:
        return [_soft_deleted(graph)]
    if reason := graph.not_found(name).reason:
        return [_number(graph, name, reason)]
    indexed = [
        index.labels[0]
        for index in schema.indexes(graph.database).values()
        if index.type == "RANGE" and index.state == "ONLINE" and index.properties == [graph.key]
    ]
    if labels := labels_with(graph, name, indexed):
        return [_other_label(graph, name, labels)]
    if found := named_otherwise(graph, name):
        return [_otherwise(graph, found)]
    return [_not_found(graph, name)]


def _number(graph: EntityGraph, name: str, reason: str) -> Cause:
    """There is a number as key that this name reads as. A whole one has another name, and a decimal one has none."""
    number = float(name)
    whole = str(int(number)) if number.is_integer() else ""
    if number_of(whole) is not None:
        why = f"no :{graph.label} has this `{graph.key}`; did you mean {whole}?"
        return Cause(Reason.NOT_FOUND, why, False, command("explain", whole))
    return Cause(Reason.UNUSABLE_KEY, reason, False, None, _give_it_a_key(graph))


def _give_it_a_key(graph: EntityGraph) -> str:
    """Of this one entity; how many more there are is not looked at."""
    return (
        f"give it a text or a whole number in `{graph.key}`, or set EMBED_ENTITY_KEY to a property where all have one; "
        "`neo4j-queue doctor` says how many such entities there are"
    )


def _soft_deleted(graph: EntityGraph) -> Cause:
    hiding = graph.deleted.name or ""
    node = f"MATCH (n:{quote(graph.label)} {{{quote(graph.key)}: …}}) REMOVE n.{quote(hiding)}"
    why = f"it is soft-deleted: it has a `{hiding}`, and such entities are neither embedded nor found"
    advice = f"it comes back when it is written again (`create_entities`), or by {node}"
    return Cause(Reason.SOFT_DELETED, why, False, None, advice)


def _other_label(graph: EntityGraph, name: str, labels: Sequence[str]) -> Cause:
    there = ", ".join(f":{label}" for label in labels)
    why = f"no :{graph.label} has this `{graph.key}`, but a node with another label has it ({there}): out of scope"
    advice = f"give the node the label :{graph.label}, or set EMBED_ENTITY_LABEL={labels[0]}"
    return Cause(
        Reason.OTHER_LABEL, why, False, command("explain", name, EMBED_ENTITY_LABEL=labels[0]), advice
    )


def _otherwise(graph: EntityGraph, found: Otherwise) -> Cause:
    what = f"it is the `{found.property}` of a :{graph.label}"
    if found.deleted:
        why = f"{what} that is soft-deleted: it has a `{graph.deleted.name}`"
        return Cause(Reason.SOFT_DELETED, why, False)
    if not found.uid:
        why = f"{what} without a text or a whole number in `{graph.key}`: it will never get a vector"
        return Cause(Reason.UNUSABLE_KEY, why, False, None, _give_it_a_key(graph))
    why = f"{what} whose key `{graph.key}` is {_quoted(found.uid)}: entities are named by their key"
    return Cause(Reason.OTHER_PROPERTY, why, False, command("explain", found.uid))


def _not_found(graph: EntityGraph, name: str) -> Cause:
    why = f"no :{graph.label} has this `{graph.key}`"
    near = near_keys(graph, name)
    if not near:
        return Cause(Reason.NOT_FOUND, why, False)
    meant = " or ".join(map(_quoted, near))
    return Cause(Reason.NOT_FOUND, f"{why}; did you mean {meant}?", False, command("explain", near[0]))


def _quoted(uid: str) -> str:
    """A key in a sentence, in the letters of its language."""
    return f'"{uid}"' if len(uid) <= SHOWN else f'"{uid[:SHOWN]}…"'

"""What stands in the timestamps of `EMBED_DISCOVERY`, and which changes are not found by them."""

from neo4j_queue.cypher import quote
from neo4j_queue.database import Database
from neo4j_queue.graph import EntityGraph
from neo4j_queue.graph.changes import FUTURE, TEXT, Changes, limits
from neo4j_queue.schema.changed import why_no_look
from neo4j_queue.settings import Settings


def lines(graph: Database, settings: Settings) -> list[str]:
    """One line for each thing that people should know. Reads the whole index: a third of a second per million."""
    entities = EntityGraph.from_settings(settings, database=graph)
    found: list[str] = []
    for name in settings.changed_properties():
        # That the index is missing is said by the look at the schema.
        if why_no_look(graph, entities.label, name) is None:
            found += _lines_of(Changes(entities, name))
    return found


def _lines_of(changes: Changes) -> list[str]:
    counts = changes.counts(limits(changes.open_since().now))
    future, texts = counts.pop(FUTURE, 0), counts.pop(TEXT, 0)
    label, name = f":{quote(changes.graph.label)}", f"n.{quote(changes.timestamp)}"
    found = []
    if len(counts) > 1:
        each = ", ".join(f"{count:,} {kind}" for kind, count in counts.items())
        found.append(f"{name} holds several kinds of time ({each}): each is looked at by itself")
    if texts:
        cure = f"MATCH (n{label}) WHERE {name} IS :: STRING SET {name} = datetime({name})"
        found.append(
            f"{texts:,} {label} have a text in {name}, so that no change of them is found by it: {cure}"
        )
    if future:
        found.append(
            f"{future:,} {label} have a time in the future in {name}: looked at when it has come, not before"
        )
    if not counts and not texts and not future:
        found.append(f"no {label} has a time in {name}, so that no change is found by it")
    return found

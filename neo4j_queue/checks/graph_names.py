"""Do the settings mean nodes that the graph has? A label or a property with a typing error finds nothing, silently."""

import difflib
from collections.abc import Iterable

from neo4j_queue.cypher import statement
from neo4j_queue.database import Database
from neo4j_queue.embedders import describe
from neo4j_queue.names import VECTOR
from neo4j_queue.settings import Settings
from neo4j_queue.text import TextRecipe

# Entities whose properties are looked at first: a tenth of a second. Only what none of them has is searched for.
SAMPLE = 1_000
MEANT = "; did you mean "


def strangers(graph: Database, settings: Settings, *, of_nothing: bool = False) -> list[str]:
    """One line for the label and each property of the settings that no node of the graph carries.

    A graph that is empty or whose entities are all soft-deleted is one line `of_nothing`, for callers that look for
    entities. The parts of the default text may be missing; they are not looked for.
    """
    label = settings.embed_entity_label
    query = statement("graph/survey", label=label, **settings.deleted_property().identifiers)
    (found,) = graph.read(query, sample=SAMPLE)
    if not found["entities"]:
        if not found["nodes"]:
            empty = f"{settings.neo4j_uri} ({graph.address.database}) has no node at all"
            return [f"EMBED_ENTITY_LABEL={label}: the graph {empty}"] if of_nothing else []
        # An index makes a label known that no node has.
        labels = [row["label"] for row in graph.read(statement("graph/labels")) if row["label"] != label]
        return [f"EMBED_ENTITY_LABEL={label}: no node of the graph has this label{_near(label, labels)}"]
    there = set(found["properties"])
    hiding = settings.embed_deleted_property
    gone = f"EMBED_ENTITY_LABEL={label}: every :{label} has a `{hiding}`, which means that it is deleted"
    return [gone] * (of_nothing and not found["current"]) + [
        f"{variable}: no :{label} has a property `{name}`{_near(name, there)}"
        for variable, name in _meant(settings)
        if name not in there and not _carried(graph, label, name)
    ]


def unusable(graph: Database, settings: Settings) -> list[str]:
    """The line about vectors that search cannot find, among the first thousand of this model; none if all are well.

    Other programs leave them behind, such as `apoc.refactor.mergeNodes`. All are found by `enqueue --all`, which reads
    every text.
    """
    spec = describe(settings)
    label, key = settings.embed_entity_label, settings.embed_entity_key
    names = {**VECTOR.identifiers, **settings.deleted_property().identifiers}
    query = statement("graph/unusable", label=label, key=key, **names)
    (row,) = graph.read(query, model=spec.model, dimensions=spec.dimensions, sample=SAMPLE)
    if not row["entities"]:
        return []
    example = f", such as {row['example']}" if row["example"] else ""
    return [
        f"{row['entities']} of the first {SAMPLE:,} vectors of :{label} are no vectors of {spec.dimensions} numbers"
        f"{example}: search never finds them; neo4j-queue enqueue --all makes them anew"
    ]


def mistakes(graph: Database, settings: Settings) -> list[str]:
    """Those of the lines that are typing errors in all likelihood: the graph knows another name that is almost the
    same."""
    return [line for line in strangers(graph, settings) if MEANT in line]


def _meant(settings: Settings) -> list[tuple[str, str]]:
    meant = [("EMBED_ENTITY_KEY", settings.embed_entity_key)]
    for attribute in ("embed_text_properties", "embed_text_template"):
        if getattr(settings, attribute) is not None:
            meant += [(attribute.upper(), name) for name in TextRecipe.from_settings(settings).properties]
    return [*meant, *(("EMBED_DISCOVERY", name) for name in settings.changed_properties())]


def _carried(graph: Database, label: str, name: str) -> bool:
    return bool(graph.read(statement("graph/carried", label=label, property=name))[0]["carried"])


def _near(name: str, known: Iterable[str]) -> str:
    """The nearest of the known names as a question, whatever its case."""
    by_lower = {each.lower(): each for each in known}
    near = difflib.get_close_matches(name.lower(), by_lower, n=1)
    return f"{MEANT}{by_lower[near[0]]}?" if near else ""

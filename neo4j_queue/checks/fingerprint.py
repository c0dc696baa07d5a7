"""The settings that all processes on one queue must share: the graph, which entities, which text, which model.

A worker that was started with other settings finds none of the caller's entities and ends their jobs without a
vector. So each worker writes the fingerprint of its settings into the census, and a caller that asks for vectors
compares it with its own.
"""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass

from neo4j.exceptions import DriverError, Neo4jError

from neo4j_queue.cypher import statement
from neo4j_queue.database import Database
from neo4j_queue.embedders import describe
from neo4j_queue.errors import SettingsError
from neo4j_queue.queue.leases import Worker
from neo4j_queue.settings import Settings
from neo4j_queue.text import TextRecipe

# Hex digits of each part: a change goes unseen once in four thousand million.
DIGITS = 8
# Workers named of each group in a line for people: a hundred would bury what it says.
NAMED = 3


@dataclass(frozen=True, slots=True)
class Split:
    """Workers with different settings: the parts that differ, and the groups that agree."""

    parts: tuple[str, ...]
    groups: tuple[tuple[str, ...], ...]

    def __str__(self) -> str:
        groups = " / ".join(map(_some, self.groups))
        return (
            f"workers run with different settings ({', '.join(self.parts)}): {groups}; none does the jobs of the "
            "others: restart those whose settings are wrong"
        )


def fingerprint(settings: Settings, graph: Database | None) -> str:
    """The settings that must agree as digests: `graph:0f3a… label:… key:… deleted:… text:… model:…`; no value can be
    read.

    The graph is known by the id of its store, since one server has many addresses; that part is left out when the
    graph does not answer or is not given (None), and so is the model when its width cannot be known.
    """
    recipe = TextRecipe.from_settings(settings)
    parts: dict[str, object] = {
        "graph": _store(graph) if graph is not None else None,
        "label": settings.embed_entity_label,
        "key": settings.embed_entity_key,
        "deleted": [settings.embed_deleted_property],
        # Without a template the list, and without both the memento text, are told by their properties.
        "text": [recipe.properties, settings.embed_text_template, settings.embed_text_properties is None],
        "model": _model(settings),
    }
    return " ".join(f"{name}:{_digest(value)}" for name, value in parts.items() if value is not None)


def disagreement(workers: Iterable[Worker], own: str) -> str | None:
    """One line that names the workers whose settings differ from the fingerprint `own`, or None.

    A part that one of the two does not know is not compared.
    """
    ours = parts_of(own)
    found: dict[str, list[str]] = {}
    for worker in workers:
        other = differing(own, worker.fingerprint or "")
        if other:
            found[worker.name] = other
    if not found:
        return None
    names = ", ".join(sorted(found))
    parts = ", ".join(name for name in ours if any(name in other for other in found.values()))
    who, are = (f"worker {names}", "runs") if len(found) == 1 else (f"workers {names}", "run")
    return f"{who} {are} with other settings than yours ({parts}) and cannot do your jobs: restart with the right ones"


def differing(one: str, other: str) -> list[str]:
    """The parts in which two fingerprints differ; one that either does not know is not compared."""
    theirs = parts_of(other)
    return [name for name, mark in parts_of(one).items() if theirs.get(name, mark) != mark]


def split(workers: Iterable[Worker]) -> Split | None:
    """How the settings of these workers differ, or None. A part that a worker does not tell is not compared."""
    told = {worker.name: parts_of(worker.fingerprint or "") for worker in workers}
    marks: dict[str, set[str]] = {}
    for parts in told.values():
        for part, mark in parts.items():
            marks.setdefault(part, set()).add(mark)
    differing = tuple(part for part, seen in marks.items() if len(seen) > 1)
    if not differing:
        return None
    groups: dict[tuple[str | None, ...], list[str]] = {}
    for name in sorted(told):
        key = tuple(told[name].get(part) for part in differing)
        if any(key):
            groups.setdefault(key, []).append(name)
    return Split(tuple(sorted(differing)), tuple(map(tuple, groups.values())))


def _some(names: tuple[str, ...]) -> str:
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more


def parts_of(mark: str) -> dict[str, str]:
    """The digests of a fingerprint by the names of the parts."""
    return dict(part.split(":", 1) for part in mark.split() if ":" in part)


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()[:DIGITS]


def _store(graph: Database) -> str | None:
    try:
        return str(graph.read(statement("server/store"))[0]["id"])
    except (Neo4jError, DriverError):
        return None


def _model(settings: Settings) -> list[object] | None:
    try:
        spec = describe(settings)
    except SettingsError:
        return None
    return [spec.provider, spec.model, spec.dimensions]

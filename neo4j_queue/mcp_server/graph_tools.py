"""The tools that write entities and relations, in the shapes of the reference memory server."""

from collections.abc import Iterable, Sequence
from typing import Any

from neo4j_queue.graph.entities import Change, EntityInput, EntityResult, Relation
from neo4j_queue.graph.keys import named
from neo4j_queue.mcp_server import answers, arguments
from neo4j_queue.mcp_server.backend import Backend
from neo4j_queue.mcp_server.calls import GRAPH, Call
from neo4j_queue.mcp_server.refusals import telling
from neo4j_queue.mcp_server.tool import Tool


def create_entities(backend: Backend, given: arguments.CreateEntities, call: Call) -> dict[str, Any]:
    """Creates those that are not there; of two entries with one name the first counts, as in the memory server."""
    wanted: dict[str, arguments.NewEntity] = {}
    for entity in given.entities:
        wanted.setdefault(named(entity.name), entity)
    inputs = [
        EntityInput(each.name, each.entityType, each.observations, each.properties)
        for each in wanted.values()
    ]
    results = call.of(GRAPH, backend.graph.create_entities, inputs, keep=True)
    written = [result for result in results if result.change is not Change.UNCHANGED]
    created = {result.uid for result in written}
    return {
        "entities": [
            {"name": each.name, "entityType": each.entityType, "observations": each.observations or []}
            for name, each in wanted.items()
            if name in created
        ],
        "existing": [each.name for name, each in wanted.items() if name not in created],
        "jobs": _jobs(backend, written, call),
        **_note(backend, observed=any(each.observations for each in wanted.values())),
    }


def _note(backend: Backend, *, observed: bool) -> dict[str, str]:
    """What an agent must know that writes observations where the texts are made of other properties."""
    properties = backend.graph.recipe.properties
    if not observed or "observations" in properties:
        return {}
    return {
        "note": "observations are stored, and are no part of the text that is embedded: it is made of "
        f"{', '.join(properties)} (EMBED_TEXT_PROPERTIES, EMBED_TEXT_TEMPLATE)"
    }


def _jobs(backend: Backend, written: Sequence[EntityResult], call: Call) -> list[dict[str, Any]]:
    """What became of each; where no job was made, whether none is needed or a sweep makes it later."""
    without = [result.uid for result in written if result.job is None]
    texts = call.of(GRAPH, backend.graph.read_texts, without)
    fresh = {text.uid for text in texts if text.fresh}
    return [
        {"entity": result.uid, "job_id": result.job.id, "outcome": str(result.job.outcome)}
        if result.job
        else {
            "entity": result.uid,
            "job_id": None,
            "outcome": "current" if result.uid in fresh else "deferred",
        }
        for result in written
    ]


def add_observations(backend: Backend, given: arguments.AddObservations, call: Call) -> dict[str, Any]:
    """Adds to none when one of the entities is not there."""
    entries = [(named(each.entityName), each.contents) for each in given.observations]
    there = _there(backend, [key for key, _ in entries], call)
    for key, _ in entries:
        if key not in there:
            raise call.of(GRAPH, backend.graph.not_found, key)
    results: list[dict[str, Any]] = []
    done: list[str] = []
    for key, contents in entries:
        with telling(done):
            added = call.of(GRAPH, backend.graph.add_observations, key, contents)
        results.append({"entityName": key, "addedObservations": added})
        done.append(key)
    observed = any(contents for _, contents in entries)
    return {"results": results, **_note(backend, observed=observed)}


def delete_observations(backend: Backend, given: arguments.DeleteObservations, call: Call) -> dict[str, Any]:
    """Names the entities that are not there, and goes on with the others."""
    entries = [(named(each.entityName), each.observations) for each in given.deletions]
    there = _there(backend, [key for key, _ in entries], call)
    results: list[dict[str, Any]] = []
    done: list[str] = []
    for key, observations in entries:
        if key not in there:
            continue
        with telling(done):
            deleted = call.of(GRAPH, backend.graph.delete_observations, key, observations)
        results.append({"entityName": key, "deletedObservations": deleted})
        done.append(key)
    asked = sum(len(observations) for _, observations in entries)
    missing = list(dict.fromkeys(key for key, _ in entries if key not in there))
    deleted_count = sum(len(each["deletedObservations"]) for each in results)
    message = f"Deleted {deleted_count:,} of {asked:,} observations" + _not_found(missing)
    return {"success": True, "message": message, "results": results, "notFound": missing}


def create_relations(backend: Backend, given: arguments.CreateRelations, call: Call) -> dict[str, Any]:
    """Creates all of them, or none when an end of one is not there."""
    wanted = dict.fromkeys(
        Relation(named(each.source), each.relationType, named(each.to)) for each in given.relations
    )
    call.of(GRAPH, backend.graph.create_relations, list(wanted))
    return {
        "relations": [{"from": each.source, "to": each.target, "relationType": each.type} for each in wanted]
    }


def delete_entities(backend: Backend, given: arguments.DeleteEntities, call: Call) -> dict[str, Any]:
    """Deletes those that are there, with their relations, and names the others."""
    keys = list(dict.fromkeys(map(named, given.entityNames)))
    there = _there(backend, keys, call)
    deleted: list[str] = []
    for key in keys:
        if key in there:
            with telling(deleted):
                call.of(GRAPH, backend.graph.delete_entity, key)
            deleted.append(key)
    missing = [key for key in keys if key not in there]
    message = f"Deleted {len(deleted):,} of {len(keys):,} entities" + _not_found(missing)
    return {"success": True, "message": message, "deleted": deleted, "notFound": missing}


def _there(backend: Backend, keys: Iterable[str], call: Call) -> set[str]:
    """Those of the keys that current entities have."""
    return {text.uid for text in call.of(GRAPH, backend.graph.read_texts, keys) if not text.deleted}


def _not_found(keys: Sequence[str]) -> str:
    return f". Not found: {', '.join(keys)}" if keys else "."


TOOLS = (
    Tool(
        "create_entities",
        "Create entities",
        "Create entities in the knowledge graph, each with a name, a type and observations. One whose name is there "
        "already is left as it is and named under `existing`: add_observations adds to it. Vectors are made in the "
        "background.",
        arguments.CreateEntities,
        answers.CreatedEntities,
        create_entities,
        writes=True,
    ),
    Tool(
        "add_observations",
        "Add observations",
        "Add observations to entities that exist; one that an entity has already is not added again. When an entity "
        "is not there, nothing is added to any.",
        arguments.AddObservations,
        answers.AddedObservations,
        add_observations,
        writes=True,
    ),
    Tool(
        "delete_observations",
        "Delete observations",
        "Delete observations from entities, each given word for word.",
        arguments.DeleteObservations,
        answers.DeletedObservations,
        delete_observations,
        writes=True,
        destructive=True,
    ),
    Tool(
        "create_relations",
        "Create relations",
        "Create directed relations between entities that exist, in active voice. When an end of one is not there, none "
        "is created; one that is there already stays.",
        arguments.CreateRelations,
        answers.CreatedRelations,
        create_relations,
        writes=True,
    ),
    Tool(
        "delete_entities",
        "Delete entities",
        "Delete entities and their relations for good.",
        arguments.DeleteEntities,
        answers.DeletedEntities,
        delete_entities,
        writes=True,
        destructive=True,
    ),
)

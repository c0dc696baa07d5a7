"""The tools that ask for vectors, and for the entities that have none."""

from typing import Any

from neo4j_queue.graph.keys import named
from neo4j_queue.mcp_server import answers, arguments
from neo4j_queue.mcp_server.backend import Backend
from neo4j_queue.mcp_server.calls import Call
from neo4j_queue.mcp_server.tool import Tool
from neo4j_queue.reconcile import repair
from neo4j_queue.reconcile.explain import explain

BOTH = "the graph or the jobs database"
# Of a text: enough to see what the entity is.
TEXT_CHARS = 300


def force_generate_embedding(
    backend: Backend, given: arguments.ForceGenerateEmbedding, call: Call
) -> dict[str, Any]:
    """The dual-mode tool; see `repair.force_generate_embedding`."""
    name = None if given.entity_name is None else named(given.entity_name)
    call.of(BOTH, backend.refuse_other_settings)
    answer = call.of(BOTH, repair.force_generate_embedding, backend.graph, backend.queue, name, given.limit)
    backend.broker.nudge()
    return answer


def get_entities_without_embeddings(
    backend: Backend, given: arguments.GetEntitiesWithoutEmbeddings, call: Call
) -> dict[str, Any]:
    """Entities without a vector that nothing takes care of yet."""
    call.of(BOTH, backend.refuse_old_schema)
    limit = repair.bounded_limit(given.limit)
    found = call.of(BOTH, repair.discover, backend.graph, backend.queue, limit)
    return {
        "limit": limit,
        "entities": [
            {"entity": text.uid, "text": text.text[:TEXT_CHARS], "est_tokens": text.est_tokens}
            for text in found
        ],
    }


def explain_entity(backend: Backend, given: arguments.ExplainEntity, call: Call) -> dict[str, Any]:
    """Why one entity has no fresh vector, as `neo4j-queue explain --json` gives it."""
    call.of(BOTH, backend.refuse_old_schema)
    name = named(given.entity_name)
    found = call.of(BOTH, explain, backend.graph, backend.queue, backend.settings, name)
    return found.as_json(text=given.text)


TOOLS = (
    Tool(
        "force_generate_embedding",
        "Generate embeddings now",
        "Queue an embedding job for one entity by name (also when it has a vector), or, without a name, for up to "
        "`limit` entities that have no vector. The vector is written in the background.",
        arguments.ForceGenerateEmbedding,
        answers.ForcedEmbedding,
        force_generate_embedding,
        writes=True,
    ),
    Tool(
        "get_entities_without_embeddings",
        "Entities without embeddings",
        "Entities that have no vector and that no job takes care of: none waits or runs for them, and none failed for "
        "good.",
        arguments.GetEntitiesWithoutEmbeddings,
        answers.EntitiesWithoutEmbeddings,
        get_entities_without_embeddings,
    ),
    Tool(
        "explain_entity",
        "Explain an entity's embedding",
        "Why an entity has no fresh vector: whether it is in scope, its text, its vector, its jobs with their errors, "
        "what it waits for and about how long, and the command that helps.",
        arguments.ExplainEntity,
        answers.ExplainedEntity,
        explain_entity,
    ),
)

"""The tool that finds entities."""

from typing import Any

from neo4j_queue.mcp_server import answers, arguments, plain
from neo4j_queue.mcp_server.backend import Backend
from neo4j_queue.mcp_server.calls import GRAPH, Call
from neo4j_queue.mcp_server.tool import Tool


def search_entities(backend: Backend, given: arguments.SearchEntities, call: Call) -> dict[str, Any]:
    """See `EntityGraph.search`; the same answer as `neo4j-queue search --json`, as JSON can hold it."""
    found = call.of(
        GRAPH,
        backend.graph.search,
        given.query,
        given.limit or arguments.LIMIT,
        mode=given.mode,
        min_score=given.min_score,
        labels=given.labels,
        where=given.where,
        changed_since=given.changed_since,
        strict=given.strict,
        lucene=given.lucene,
    )
    answer = found.as_dict()
    hits = [{**hit, "properties": plain.properties(hit["properties"])} for hit in answer["hits"]]
    return {**answer, "hits": hits}


TOOLS = (
    Tool(
        "search_entities",
        "Search entities",
        "Find entities by meaning and by words, best first. Where one of the two cannot answer, the other does, and "
        "`fallback_reason` says why. Hits marked `stale` have no vector of their text as it is now.",
        arguments.SearchEntities,
        answers.FoundEntities,
        search_entities,
    ),
)

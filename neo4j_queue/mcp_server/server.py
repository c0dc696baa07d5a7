"""The server: lists the tools, and calls them so that whatever happens is an answer."""

import json
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed_version
from typing import Any

from mcp import types
from mcp.server import Server, ServerRequestContext
from pydantic import BaseModel

from neo4j_queue.errors import TemporarilyUnavailable
from neo4j_queue.mcp_server import embedding_tools, graph_tools, queue_tools, refusals, search_tool
from neo4j_queue.mcp_server.backend import Backend
from neo4j_queue.mcp_server.calls import Call, Calls
from neo4j_queue.mcp_server.tool import Tool

NAME = "neo4j-queue"
INSTRUCTIONS = (
    "A knowledge graph in Neo4j whose entities get vectors by themselves. Entities have a name, a type and "
    "observations; relations are directed. Vectors are made in the background, a moment after an entity was created or "
    "changed: queue_status says how far that is. Look with search_entities before you create what may be there."
)
TOOLS = (*search_tool.TOOLS, *graph_tools.TOOLS, *embedding_tools.TOOLS, *queue_tools.TOOLS)
# Of a call that changes something and got no answer in time.
PERHAPS_DONE = "; what was asked for may have been done all the same, or be done yet"


def build(backend: Backend, calls: Calls, *, read_only: bool = False) -> Server[Any]:
    """The server over these parts; with `read_only` without the tools that change the graph or the queue."""
    tools = {tool.name: tool for tool in TOOLS if not (read_only and tool.writes)}
    listed = types.ListToolsResult(tools=[tool.listing() for tool in tools.values()])

    async def list_tools(
        _context: ServerRequestContext[Any], _params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return listed

    async def call_tool(
        _context: ServerRequestContext[Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        tool = tools.get(params.name)
        if tool is None:
            return _refused(_unknown(params.name, tools, read_only=read_only))
        return await _called(tool, params.arguments or {}, backend, calls)

    return Server(
        NAME,
        version=_version(),
        title="Neo4j knowledge graph with embeddings",
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


async def _called(
    tool: Tool, arguments: dict[str, Any], backend: Backend, calls: Calls
) -> types.CallToolResult:
    settings = backend.settings

    def work(call: Call) -> dict[str, Any]:
        given = tool.arguments.model_validate(arguments)
        return _answer(tool, tool.act(backend, given, call))

    try:
        found = await calls.run(tool.name, work)
    except TemporarilyUnavailable as error:
        return _refused(
            refusals.reason_of(error, settings, tool.name) + (PERHAPS_DONE if tool.writes else "")
        )
    except Exception as error:  # noqa: BLE001 - the edge: whatever it is becomes the answer of this call
        return _refused(refusals.reason_of(error, settings, tool.name))
    answer = refusals.without_secrets(found, settings.secrets())
    text = json.dumps(answer, ensure_ascii=False)
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=text)], structured_content=answer
    )


def _answer(tool: Tool, found: BaseModel | dict[str, Any]) -> dict[str, Any]:
    """The answer as its model allows it, with the fields that were given and no others."""
    model = found if isinstance(found, BaseModel) else tool.answer.model_validate(found)
    return model.model_dump(mode="json", by_alias=True, exclude_unset=True)


def _unknown(name: str, tools: Iterable[str], *, read_only: bool) -> str:
    left_out = read_only and any(tool.name == name for tool in TOOLS)
    why = "this server is read-only" if left_out else f"there are {', '.join(sorted(tools))}"
    return refusals.one_line(f"Unknown tool: {name} ({why})", ())


def _refused(reason: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=reason)], is_error=True)


def _version() -> str:
    try:
        return installed_version(NAME)
    except PackageNotFoundError:  # runs from its sources
        return "0"

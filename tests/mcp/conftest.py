"""Real servers and real clients of the SDK, over both transports."""

import json
import os
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal
from mcp import Client, StdioServerParameters, stdio_client, types
from mcp.client.streamable_http import streamable_http_client

from neo4j_queue.database import Database
from neo4j_queue.graph import EntityGraph
from neo4j_queue.graph.entities import VectorWrite
from neo4j_queue.local_services import LocalServices
from neo4j_queue.queue import EmbedQueue
from neo4j_queue.settings import Settings
from tests.celery_processes import ROOT
from tests.serving import COMMAND, Listening, listening

ANNOUNCED = "serving MCP on "
# More than the server takes for its answer, whatever is down.
CALL_S = 60.0

LEGACY, MODERN = "legacy", "auto"


@dataclass(frozen=True)
class Agent:
    """A client of a server, called from tests that are not asynchronous."""

    portal: BlockingPortal
    client: Client

    def call(self, tool: str, **arguments: Any) -> types.CallToolResult:
        """What the server answers, also an error."""
        return self.portal.call(partial(self.client.call_tool, tool, arguments, read_timeout_seconds=CALL_S))

    def begin(self, tool: str, **arguments: Any) -> "Future[types.CallToolResult]":
        """The same, not waited for."""
        return self.portal.start_task_soon(
            partial(self.client.call_tool, tool, arguments, read_timeout_seconds=CALL_S)
        )

    def answer(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """The structured answer, which must be none of an error, and whose text must say the same."""
        result = self.call(tool, **arguments)
        assert not result.is_error, result.content
        (content,) = result.content
        assert isinstance(content, types.TextContent)
        assert json.loads(content.text) == result.structured_content
        assert isinstance(result.structured_content, dict)
        return result.structured_content

    def refusal(self, tool: str, **arguments: Any) -> str:
        """The reason of an error, which must be one line and no stack trace."""
        return reason(self.call(tool, **arguments))

    def tools(self) -> dict[str, types.Tool]:
        """The tools that the server lists."""
        return {tool.name: tool for tool in self.portal.call(self.client.list_tools).tools}


def reason(result: types.CallToolResult) -> str:
    """The one line of an error."""
    assert result.is_error, result.structured_content
    assert result.structured_content is None
    (content,) = result.content
    assert isinstance(content, types.TextContent)
    assert "\n" not in content.text
    assert "Traceback" not in content.text
    return content.text


@contextmanager
def connected(server: Any, mode: str = MODERN) -> Iterator[Agent]:
    """A client of a server: a URL, the command that starts one, or a transport."""
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(Client(server, mode=mode)) as client,
    ):
        yield Agent(portal, client)


@contextmanager
def connected_with(url: str, headers: dict[str, str], mode: str = MODERN) -> Iterator[Agent]:
    """A client that sends these headers."""
    with start_blocking_portal() as portal, ExitStack() as stack:
        http = httpx2.AsyncClient(headers=headers, timeout=CALL_S)
        stack.enter_context(portal.wrap_async_context_manager(http))
        transport = streamable_http_client(url, http_client=http)
        client = stack.enter_context(portal.wrap_async_context_manager(Client(transport, mode=mode)))
        yield Agent(portal, client)


HttpServer = Listening


@contextmanager
def serving(environment: dict[str, str], directory: Path, *arguments: str) -> Iterator[HttpServer]:
    """`neo4j-queue mcp --http` with these arguments, on a free port unless they name one."""
    with listening(["mcp", "--http"], ANNOUNCED, environment, directory, *arguments) as found:
        yield found


def command(environment: dict[str, str], *arguments: str, directory: Path | None = None) -> Any:
    """The transport that starts `neo4j-queue mcp` and speaks with it over its stdin and stdout."""
    parameters = StdioServerParameters(
        command=COMMAND[0],
        args=[*COMMAND[1:], "mcp", *arguments],
        env={**environment, "PYTHONPATH": str(ROOT)},
        cwd=directory,
    )
    return stdio_client(parameters)


@dataclass(frozen=True)
class World:
    """The databases behind the servers. `environment`: that of the servers."""

    environment: dict[str, str]
    settings: Settings
    graph: EntityGraph
    queue: EmbedQueue
    graph_db: Database
    jobs_db: Database

    def vectors(self, *names: str) -> None:
        """Gives entities the vector of their text, as a worker would."""
        texts = self.graph.read_texts(names)
        vector = [1.0, *[0.0] * (self.graph.dimensions - 1)]
        self.graph.write_vectors([VectorWrite(t.uid, t.source, t.content_hash, vector) for t in texts])


@pytest.fixture(scope="module")
def server_environment(services: LocalServices) -> dict[str, str]:
    """The environment of servers that several tests share."""
    return {**os.environ, **services.environment(), "EMBEDDING_PROVIDER": "mock"}


@pytest.fixture
def world(
    graph_db: Database,
    jobs_db: Database,
    redis_url: str,
    settings: Settings,
    server_environment: dict[str, str],
) -> World:
    """Empty databases, and the library beside the servers."""
    queue = EmbedQueue(jobs_db, settings)
    graph = EntityGraph.from_settings(settings, enqueue=queue.enqueue, database=graph_db, enqueue_wait_s=60)
    return World(server_environment, settings, graph, queue, graph_db, jobs_db)


@pytest.fixture(scope="module")
def http_server(
    server_environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[HttpServer]:
    """A server over HTTP that the tests of a module share."""
    with serving(server_environment, tmp_path_factory.mktemp("mcp")) as server:
        yield server


@pytest.fixture(scope="module", params=["stdio", "http", "stdio, older client", "http, older client"])
def shared_agent(
    request: pytest.FixtureRequest, server_environment: dict[str, str], http_server: HttpServer
) -> Iterator[Agent]:
    """A client of either transport, and of either generation of the protocol."""
    mode = LEGACY if "older" in request.param else MODERN
    server = command(server_environment) if "stdio" in request.param else http_server.url
    with connected(server, mode) as agent:
        yield agent


@pytest.fixture
def agent(shared_agent: Agent, world: World) -> Agent:
    """The same client, before empty databases."""
    return shared_agent


Connect = Callable[..., Agent]


@pytest.fixture
def stdio_agent(world: World, tmp_path: Path) -> Iterator[Agent]:
    """A client of a server of its own over stdin and stdout."""
    with connected(command(world.environment, directory=tmp_path)) as agent:
        yield agent

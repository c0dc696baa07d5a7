"""The configuration on the page for agents is what a client is given here, word for word."""

import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from mcp import StdioServerParameters, stdio_client

from tests.celery_processes import ROOT
from tests.mcp.conftest import World, connected, connected_with, serving

PAGE = (ROOT / "docs/how-to/mcp.md").read_text(encoding="utf-8")
BLOCKS = [json.loads(block) for block in re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)]
ENTRY = {"name": "Ada", "entityType": "person", "observations": ["wrote the first program"]}


def _server(kind: str) -> dict[str, Any]:
    """The entry of the page that has such a field."""
    (found,) = [server for block in BLOCKS for server in block["mcpServers"].values() if kind in server]
    return dict(found)


def test_the_configuration_for_a_command_starts_a_server(world: World, tmp_path: Path) -> None:
    entry = _server("command")
    # Addresses are those of this test; names are those of the page.
    env = {name: world.environment[name] for name in entry["env"]}
    # A client passes on little of its own environment; the console script is the installed one.
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    env |= {"PATH": path, "PYTHONPATH": str(ROOT), "EMBEDDING_PROVIDER": "mock"}
    parameters = StdioServerParameters(command=entry["command"], args=entry["args"], env=env, cwd=tmp_path)
    with connected(stdio_client(parameters)) as agent:
        assert agent.answer("create_entities", entities=[ENTRY])["entities"] == [ENTRY]
        assert agent.answer("queue_status")["pending"] == 1


@pytest.mark.parametrize("token", [None, "0123456789abcdef0123456789abcdef"])
def test_the_configuration_for_http_reaches_a_server(world: World, tmp_path: Path, token: str | None) -> None:
    entry = _server("url")
    assert entry["type"] == "http"
    environment = {**world.environment, **({"MCP_TOKEN": token} if token else {})}
    with serving(environment, tmp_path) as server:
        # As the page says, with another port.
        assert re.sub(r":\d+", ":3002", server.url) == entry["url"]
        headers = {name: value.replace("TOKEN", token or "none") for name, value in entry["headers"].items()}
        with connected_with(server.url, headers) as agent:
            assert agent.answer("create_entities", entities=[ENTRY])["entities"] == [ENTRY]


def test_the_page_names_every_tool(world: World, tmp_path: Path) -> None:
    from neo4j_queue.mcp_server.server import TOOLS

    rows = "\n".join(line for line in PAGE.splitlines() if line.startswith("| `"))
    assert {tool.name for tool in TOOLS} <= set(re.findall(r"`(\w+)`", rows))

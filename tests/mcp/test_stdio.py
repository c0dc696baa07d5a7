"""The server as a process of its client: what goes to stdout, and how it ends."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from neo4j_queue.local_services import LocalServices
from tests.celery_processes import ROOT
from tests.freezing import frozen
from tests.mcp.conftest import World, command, connected
from tests.serving import COMMAND, READY_S

CONFIGURATION, USAGE = 78, 2
# The SDK's client waits two seconds for a server whose stdin it has closed, then sends SIGTERM.
CLOSES_WITHIN_S = 2.0


def request(number: int, method: str, **params: Any) -> str:
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params})


HELLO = request(
    0,
    "initialize",
    protocolVersion="2025-06-18",
    capabilities={},
    clientInfo={"name": "test", "version": "1"},
)
READY = json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"})


def call(number: int, tool: str, **arguments: Any) -> str:
    return request(number, "tools/call", name=tool, arguments=arguments)


@contextmanager
def process(world: World, *arguments: str, **environment: str) -> Iterator["subprocess.Popen[str]"]:
    """A server whose pipes are ours."""
    started = subprocess.Popen(
        [*COMMAND, *arguments],
        env={**world.environment, "PYTHONPATH": str(ROOT), **environment},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    )
    try:
        yield started
    finally:
        started.kill()
        started.wait()


def say(server: "subprocess.Popen[str]", *lines: str) -> None:
    assert server.stdin is not None
    server.stdin.write("".join(f"{line}\n" for line in lines))
    server.stdin.flush()


def hear(server: "subprocess.Popen[str]") -> dict[str, Any]:
    assert server.stdout is not None
    answer: dict[str, Any] = json.loads(server.stdout.readline())
    return answer


def test_requests_from_a_pipe_are_all_answered_and_stdout_holds_nothing_else(world: World) -> None:
    """Failed without `_relay`: the SDK drops the calls in progress at the end of stdin."""
    lines = [
        HELLO,
        READY,
        call(1, "create_entities", entities=[{"name": "Ada", "observations": ["x"]}]),
        call(2, "queue_status"),
        call(3, "force_generate_embedding", entity_name="Eve"),
    ]
    done = subprocess.run(
        [*COMMAND, "--log-format", "json", "mcp"],
        env={**world.environment, "PYTHONPATH": str(ROOT), "LOG_LEVEL": "DEBUG"},
        input="\n".join([*lines, ""]),
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=READY_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answers = {answer["id"]: answer["result"] for answer in map(json.loads, done.stdout.splitlines())}
    assert set(answers) == {0, 1, 2, 3}
    assert answers[0]["serverInfo"]["name"] == "neo4j-queue"
    assert answers[1]["structuredContent"]["entities"][0]["name"] == "Ada"
    assert answers[3]["isError"] is True
    for line in done.stderr.splitlines():
        assert json.loads(line)["worker_id"].startswith("mcp@"), line


def test_what_is_no_request_harms_nothing(world: World) -> None:
    with process(world, "mcp") as server:
        say(server, HELLO, READY)
        assert hear(server)["id"] == 0
        say(server, "", "no json", "[]", "null", '{"jsonrpc": "2.0"}', "[" * 10_000, "\x00\x1b[2J")
        # Half of a character, which no text in UTF-8 can hold.
        say(server, call(1, "create_entities", entities=[{"name": "x"}]).replace('"x"', '"\\ud800"'))
        say(server, request(2, "ping"))
        heard = hear(server)
        while heard.get("id") != 2:
            assert "error" in heard or heard["result"]["isError"], heard
            heard = hear(server)
    assert world.graph_db.read("MATCH (n:Entity) RETURN count(*) AS n")[0]["n"] == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_and_sigterm_end_it_cleanly(world: World, number: signal.Signals) -> None:
    """Failed without `_end_on_signal`: the thread that reads stdin is waited for, and Ctrl-C does nothing."""
    with process(world, "mcp") as server:
        say(server, HELLO, READY, call(1, "queue_status"))
        assert [hear(server)["id"], hear(server)["id"]] == [0, 1]
        began = time.monotonic()
        server.send_signal(number)
        assert server.wait(timeout=10) == 0
        assert time.monotonic() - began < CLOSES_WITHIN_S
        assert server.stderr is not None
        assert server.stderr.read() == ""


def test_a_client_that_is_gone_ends_it_without_a_stack_trace(world: World) -> None:
    """Failed while the broken pipe was an unexpected error with exit code 1."""
    with process(world, "mcp") as server:
        say(server, HELLO, READY)
        assert hear(server)["id"] == 0
        assert server.stdout is not None
        assert server.stdin is not None
        server.stdout.close()
        say(server, call(1, "queue_status"))
        server.stdin.close()
        assert server.wait(timeout=10) == 0
        assert server.stderr is not None
        assert server.stderr.read() == ""


def test_a_call_that_the_client_cancels_is_not_answered_and_holds_up_nothing(world: World) -> None:
    world.graph.create_entities([{"name": "Ada"}])
    with (
        process(world, "mcp") as server,
        world.graph_db.driver().session(database=world.graph_db.address.database) as session,
    ):
        say(server, HELLO, READY, call(1, "queue_status"))
        assert [hear(server)["id"], hear(server)["id"]] == [0, 1]
        held = session.begin_transaction()
        held.run("MATCH (n:Entity {name: 'Ada'}) SET n.locked = true").consume()
        say(server, call(2, "delete_entities", entityNames=["Ada"]))
        say(server, request(3, "ping"))
        assert hear(server)["id"] == 3
        cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 2}}
        say(server, json.dumps(cancel), call(4, "queue_status"))
        assert hear(server)["id"] == 4
        held.commit()
        say(server, call(5, "queue_status"))
        assert hear(server)["id"] == 5


def test_the_end_of_stdin_ends_it_at_once(world: World) -> None:
    with process(world, "mcp") as server:
        say(server, HELLO, READY, call(1, "queue_status"))
        assert [hear(server)["id"], hear(server)["id"]] == [0, 1]
        assert server.stdin is not None
        began = time.monotonic()
        server.stdin.close()
        assert server.wait(timeout=10) == 0
        assert time.monotonic() - began < CLOSES_WITHIN_S


def test_a_frozen_database_does_not_keep_it_from_ending(world: World, services: LocalServices) -> None:
    """Guard: `os._exit` in `_end_on_signal`. An orderly exit waits for the thread that reads stdin."""
    with process(world, "mcp") as server:
        say(server, HELLO, READY, call(1, "create_entities", entities=[{"name": "Ada"}]))
        assert [hear(server)["id"], hear(server)["id"]] == [0, 1]
        with frozen(services.graph.pid):
            say(server, call(2, "delete_entities", entityNames=["Ada"]))
            time.sleep(0.5)
            began = time.monotonic()
            server.send_signal(signal.SIGTERM)
            assert server.wait(timeout=10) == 0
            assert time.monotonic() - began < CLOSES_WITHIN_S


def test_the_end_of_stdin_ends_it_in_bounded_time_before_a_frozen_database(
    world: World, services: LocalServices
) -> None:
    """Guard: the bound of `Calls.run`. Without it the end of stdin waits for the answer of the database."""
    with process(world, "mcp") as server:
        say(server, HELLO, READY, call(1, "create_entities", entities=[{"name": "Ada"}]))
        assert [hear(server)["id"], hear(server)["id"]] == [0, 1]
        with frozen(services.graph.pid):
            say(server, call(2, "delete_entities", entityNames=["Ada"]))
            assert server.stdin is not None
            server.stdin.close()
            # The call is answered first, which takes 20 s.
            assert server.wait(timeout=30) == 0
            assert "gave no answer" in hear(server)["result"]["content"][0]["text"]


def test_clients_do_not_wait_for_one_another(world: World) -> None:
    """A call that waits for a lock, and ten others on the same connection: all are answered before it."""
    world.graph.create_entities([{"name": "Ada"}, {"name": "Bob"}])
    with (
        connected(command(world.environment)) as one,
        connected(command(world.environment)) as other,
        world.graph_db.driver().session(database=world.graph_db.address.database) as session,
    ):
        held = session.begin_transaction()
        held.run("MATCH (n:Entity {name: 'Ada'}) SET n.locked = true").consume()
        waiting = one.begin("add_observations", observations=[{"entityName": "Ada", "contents": ["x"]}])
        began = time.monotonic()
        for agent in (one, other):
            for n in range(5):
                entry = {"entityName": "Bob", "contents": [f"{id(agent)} {n}"]}
                assert agent.answer("add_observations", observations=[entry])["results"]
                assert agent.answer("queue_status")["pending"] >= 1
        took = time.monotonic() - began
        # The server ends a wait for a lock after 5 s.
        assert took < 5
        assert not waiting.done()
        held.commit()
        assert not waiting.result(timeout=30).is_error


def test_a_read_only_server_has_no_tool_that_writes(world: World) -> None:
    with connected(command(world.environment, "--read-only")) as agent:
        tools = agent.tools()
        assert tools
        assert all(tool.annotations and tool.annotations.read_only_hint for tool in tools.values())
        assert "create_entities" not in tools
        refused = agent.refusal("create_entities", entities=[{"name": "Ada"}])
        assert refused == "Unknown tool: create_entities (this server is read-only)"
        assert agent.answer("queue_status")["total"] == 0
    assert world.graph_db.read("MATCH (n:Entity) RETURN count(*) AS n")[0]["n"] == 0


def test_without_the_extra_one_line_says_what_to_install(world: World) -> None:
    program = "import sys; sys.modules['mcp'] = None; from neo4j_queue.cli import main; main()"
    for arguments in (["mcp"], ["mcp", "--http"]):
        done = subprocess.run(
            [sys.executable, "-c", program, *arguments],
            env={**world.environment, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            timeout=READY_S,
            check=False,
        )
        assert done.returncode == CONFIGURATION
        assert done.stdout == ""
        (line,) = done.stderr.splitlines()
        assert line.startswith("neo4j-queue: ")
        assert "pip install neo4j-queue[mcp]" in line


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--port", "3002"], USAGE, "--http"),
        (["--allow-origin", "https://a.example"], USAGE, "--http"),
        (["--http", "--path", "mcp"], USAGE, "must begin with /"),
        (["--http", "--port", "70000"], USAGE, "--port"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_options_that_do_not_go_together_are_refused(
    world: World, tmp_path: Path, arguments: list[str], code: int, words: str
) -> None:
    done = subprocess.run(
        [*COMMAND, "mcp", *arguments],
        env={**world.environment, "PYTHONPATH": str(ROOT)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=READY_S,
        check=False,
    )
    assert (done.returncode, done.stdout) == (code, "")
    assert words in done.stderr


def test_wrong_settings_end_it_with_a_line_for_each(world: World, tmp_path: Path) -> None:
    with process(world, "mcp", EMBED_BATCH_SIZE="0", MCP_TOKEN="short") as server:
        assert server.wait(timeout=READY_S) == CONFIGURATION
        assert server.stderr is not None
        assert server.stdout is not None
        said = server.stderr.read()
        assert server.stdout.read() == ""
    assert "EMBED_BATCH_SIZE" in said
    assert "MCP_TOKEN: must have at least 16 characters" in said
    assert "short" not in said


@pytest.mark.parametrize("tool", ["queue_status", "queue_health", "explain_entity"])
def test_the_answer_is_that_of_the_command_line(world: World, tmp_path: Path, tool: str) -> None:
    world.graph.create_entities([{"name": "Ada"}])
    options = {"queue_status": ["status"], "queue_health": ["health"], "explain_entity": ["explain", "Ada"]}
    done = subprocess.run(
        [*COMMAND, *options[tool], "--json"],
        env={**world.environment, "PYTHONPATH": str(ROOT)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=READY_S,
        check=False,
    )
    said = json.loads(done.stdout)
    with connected(command(world.environment)) as agent:
        found = agent.answer(tool, **({"entity_name": "Ada"} if tool == "explain_entity" else {}))
    assert set(found) == set(said)
    # What moves on by itself.
    for answer in (found, said):
        for name in ("oldest_pending_seconds", "now", "ready_at"):
            answer.pop(name, None)
        (answer.get("coverage") or {}).pop("as_of", None)
    assert found == said

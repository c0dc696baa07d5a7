"""What no answer may hold, and what an exception becomes: the server in this process, over its real parts."""

import asyncio
import json
import logging
import math
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest
import structlog
from neo4j.spatial import WGS84Point
from neo4j.time import Date, DateTime, Duration

from neo4j_queue.graph import EntityGraph
from neo4j_queue.graph.entities import EntityResult
from neo4j_queue.log import configure
from neo4j_queue.mcp_server import plain
from neo4j_queue.mcp_server.backend import Backend, Broker
from neo4j_queue.mcp_server.calls import Call, Calls
from neo4j_queue.mcp_server.refusals import REASON_CHARS, one_line, without_secrets
from neo4j_queue.mcp_server.server import TOOLS, build
from tests.mcp.conftest import World, connected

BROKER = Broker(nudge=lambda: None, trouble=lambda: None, missing=list)


class BrokenGraph(EntityGraph):
    """A graph whose writes raise what the test says."""

    error: Exception = RuntimeError()

    def create_entities(self, *_: Any, **__: Any) -> list[EntityResult]:
        raise self.error


@pytest.fixture
def logged() -> Iterator[None]:
    """Lines as those of a server, for one test. With settings every logger would keep what it is for the whole session,
    and tests that read the lines of their own would find none.
    """
    handlers, level = logging.root.handlers[:], logging.root.level
    configure("mcp")
    yield
    structlog.reset_defaults()
    logging.root.handlers[:] = handlers
    logging.root.setLevel(level)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (
            RuntimeError("boom\nsecond line of it"),
            "unexpected RuntimeError: boom second line of it (the server's log has more)",
        ),
        (RuntimeError(), "unexpected RuntimeError"),
        (ValueError("no good\nat all"), "no good; at all"),
        (KeyError("k"), "unexpected KeyError"),
        # Not one of ours: the call did not take too long.
        (TimeoutError("a limit of the application"), "a limit of the application"),
        (RecursionError("deep"), "unexpected RecursionError: deep"),
        (RuntimeError("x" * 5_000), "unexpected RuntimeError: x"),
        (RuntimeError("at bolt://neo:hunter22@host"), "unexpected RuntimeError: at bolt://***@host"),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_an_exception_of_the_application_is_one_line_and_the_server_goes_on(
    world: World, logged: None, error: Exception, said: str, capfd: pytest.CaptureFixture[str]
) -> None:
    graph = BrokenGraph.from_settings(world.settings, database=world.graph_db)
    graph.error = error
    server = build(Backend(world.settings, graph, world.queue, BROKER), Calls())
    with connected(server) as agent:
        refused = agent.refusal("create_entities", entities=[{"name": "Ada"}])
        assert refused.startswith(said)
        assert len(refused) <= REASON_CHARS
        assert agent.answer("queue_status")["total"] == 0
    if "unexpected" in said:
        lines = [json.loads(line) for line in capfd.readouterr().err.splitlines()]
        (line,) = [line for line in lines if line["event"] == "mcp_tool_failed"]
        assert line["tool"] == "create_entities"
        assert type(error).__name__ in line["stack"]
        assert "hunter22" not in line["stack"]


def test_what_was_done_before_an_error_is_told(world: World) -> None:
    class Half(EntityGraph):
        def add_observations(self, name: str, observations: Sequence[str]) -> list[str]:
            if name == "b":
                raise ValueError("no room")
            return super().add_observations(name, observations)

    world.graph.create_entities([{"name": "a"}, {"name": "b"}])
    graph = Half.from_settings(world.settings, database=world.graph_db)
    server = build(Backend(world.settings, graph, world.queue, BROKER), Calls())
    entries = [{"entityName": name, "contents": ["x"]} for name in ("a", "b")]
    with connected(server) as agent:
        assert agent.refusal("add_observations", observations=entries) == "no room; done before that: a"


def test_nothing_further_is_begun_after_the_caller_was_answered(world: World) -> None:
    """Guard: the check in `Call.of`. Without it the second entity gets its observation a minute later."""
    begun, go_on = threading.Event(), threading.Event()

    class Slow(EntityGraph):
        def add_observations(self, name: str, observations: Sequence[str]) -> list[str]:
            begun.set()
            go_on.wait(30)
            return super().add_observations(name, observations)

    world.graph.create_entities([{"name": "a"}, {"name": "b"}])
    graph = Slow.from_settings(world.settings, database=world.graph_db)
    server = build(Backend(world.settings, graph, world.queue, BROKER), Calls(within_s=0.5))
    entries = [{"entityName": name, "contents": ["x"]} for name in ("a", "b")]
    with connected(server) as agent:
        refused = agent.refusal("add_observations", observations=entries)
        assert "gave no answer" in refused
        assert "may have been done" in refused
        go_on.set()
        deadline = time.monotonic() + 10
        while any(thread.name == "add_observations" for thread in threading.enumerate()):
            assert time.monotonic() < deadline
            time.sleep(0.01)
    observations = {name: world.graph.get_entity(name).properties.get("observations") for name in ("a", "b")}
    assert observations == {"a": ["x"], "b": None}


def test_calls_of_one_tool_are_bounded_and_those_of_another_are_not_kept_waiting() -> None:
    async def scenario() -> tuple[int, str]:
        calls, gate, running = Calls(within_s=20), threading.Event(), []

        def work(_call: Call) -> str:
            running.append(1)
            gate.wait(20)
            return "done"

        many = [asyncio.ensure_future(calls.run("slow", work)) for _ in range(40)]
        await asyncio.sleep(0.3)
        most = len(running)
        other = await calls.run("other", lambda _call: "at once")
        gate.set()
        assert await asyncio.gather(*many) == ["done"] * 40
        return most, other

    assert asyncio.run(scenario()) == (16, "at once")


def test_vectors_and_bytes_are_left_out_of_properties() -> None:
    found: Mapping[str, Any] = {
        "name": "Ada",
        "mine": [0.1] * 32,
        "whole": list(range(1_536)),
        "bytes": b"\x00\x01",
        "text": json.dumps([0.123456] * 100),
        "few": [1.5, 2.5],
        "words": ["a"] * 100,
        "year": 1815,
    }
    assert plain.properties(found) == {"name": "Ada", "few": [1.5, 2.5], "words": ["a"] * 100, "year": 1815}


def test_values_of_the_graph_become_json() -> None:
    found = {
        "at": DateTime(2024, 1, 2, 3, 4, 5),
        "day": Date(2024, 1, 2),
        "long": Duration(months=1),
        "place": WGS84Point((1.0, 2.0)),
        "nan": math.nan,
        "infinite": [math.inf, 1.0],
        "nested": ({"a": Date(2024, 1, 2)},),
    }
    assert json.loads(json.dumps(plain.properties(found), allow_nan=False)) == {
        "at": "2024-01-02T03:04:05.000000000",
        "day": "2024-01-02",
        "long": "P1M",
        "place": {"srid": 4326, "coordinates": [1.0, 2.0]},
        "nan": "nan",
        "infinite": ["inf", 1.0],
        "nested": [{"a": "2024-01-02"}],
    }


def test_secrets_of_the_settings_are_hidden_in_data_too() -> None:
    answer = {"a": ["the password is hunter2222"], "hunter2222": {"b": 1}, "n": 3}
    hidden = {"a": ["the password is ***"], "***": {"b": 1}, "n": 3}
    assert without_secrets(answer, ["hunter2222"]) == hidden
    # A short one is a word that texts have.
    assert without_secrets({"a": "a cat"}, ["cat"]) == {"a": "a cat"}


def test_a_reason_is_one_harmless_line() -> None:
    assert one_line("a\nb\x1b[2J\tc", ()) == "a; b\\x1b[2J\\x09c"


def test_each_answer_model_has_an_object_at_its_root() -> None:
    """What clients of the older protocol need."""
    for tool in TOOLS:
        listed = tool.listing()
        assert listed.output_schema is not None
        assert listed.output_schema["type"] == "object"
        assert listed.input_schema["type"] == "object"


def test_two_agents_that_create_one_entity_at_once_lose_nothing(world: World) -> None:
    """Guard: `keep` of the statement. Where the tool only looks before it writes, the second replaces what the first
    wrote in between."""

    class Racing(EntityGraph):
        def create_entities(self, entities: Any, **how: Any) -> list[EntityResult]:
            world.graph.create_entities([{"name": "Ada", "observations": ["first"]}])
            return super().create_entities(entities, **how)

    graph = Racing.from_settings(world.settings, database=world.graph_db)
    server = build(Backend(world.settings, graph, world.queue, BROKER), Calls())
    with connected(server) as agent:
        entities = [{"name": "Ada", "observations": ["second"]}, {"name": "Bob"}]
        answer = agent.answer("create_entities", entities=entities)
    assert (answer["existing"], [each["name"] for each in answer["entities"]]) == (["Ada"], ["Bob"])
    assert world.graph.get_entity("Ada").properties["observations"] == ["first"]

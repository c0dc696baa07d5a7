"""Which servers are new enough, by the names that they give themselves."""

import pytest

from neo4j_queue.checks.servers import outdated


@pytest.mark.parametrize(
    "agent", ["Neo4j/5.26.0", "Neo4j/5.26.29", "Neo4j/5.27-aura", "Neo4j/2025.01.0", "x"]
)
def test_new_enough(agent: str) -> None:
    assert outdated(agent) is None


@pytest.mark.parametrize("agent", ["Neo4j/4.4.41", "Neo4j/5.13.0", "Neo4j/5.25.1", "Neo4j/5"])
def test_too_old(agent: str) -> None:
    said = outdated(agent)
    assert said is not None
    assert said.startswith(f"this is {agent.replace('/', ' ')}, Neo4j 5.26")

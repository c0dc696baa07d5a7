"""The package itself: what it offers, and what it does not load."""

import subprocess
import sys

import pytest

import neo4j_queue

HEAVY = ("neo4j", "openai", "celery", "pydantic", "structlog", "redis")


def test_importing_the_package_loads_no_driver_and_no_client() -> None:
    code = f"import sys, neo4j_queue; print([name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("name", neo4j_queue.__all__)
def test_every_name_that_it_offers_is_there(name: str) -> None:
    assert getattr(neo4j_queue, name).__name__ == name
    assert name in dir(neo4j_queue)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Entity'"):
        _ = neo4j_queue.Entity

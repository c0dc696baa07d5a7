"""Tests on Docker take minutes and root: they run where they are asked for, `python -m tests docker`."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docker.engine import Engine, EngineError, compose_command, why_not

OPT_IN = "NEO4J_QUEUE_TEST_DOCKER"
HOW = "python -m tests docker runs them (root on Debian, some minutes)"

if OPT_IN not in os.environ:
    collect_ignore_glob = ["test_*.py"]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Says once that they did not run."""
    if OPT_IN not in os.environ:
        terminalreporter.write_line(f"NO TESTS ON DOCKER: {HOW}")


@pytest.fixture(scope="session")
def engine() -> Iterator[Engine]:
    """A running engine with the stand-ins; stopped at the end, with all that runs in it."""
    reason = why_not()
    engine = Engine()
    if reason is None and compose_command(engine.environment) is None:
        reason = "Compose is missing"
    if reason is not None:
        pytest.skip(f"NO TESTS ON DOCKER: {reason}")
    try:
        engine.start()
        engine.prepare_images()
    except EngineError as error:
        engine.stop()
        pytest.fail(str(error))
    yield engine
    engine.stop()


@pytest.fixture(scope="session")
def root() -> Path:
    """Where compose.yaml and the Dockerfile are."""
    return Path(__file__).parents[2]

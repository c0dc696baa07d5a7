"""A directory that has a `tasks.py` and a `celeryconfig.py` of its own (pyinvoke/invoke#131)."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.celery.conftest import World
from tests.celery_processes import ROOT


@pytest.fixture
def theirs(tmp_path: Path) -> Path:
    """A directory of another Celery program."""
    directory = tmp_path / "theirs"
    directory.mkdir()
    (directory / "tasks.py").write_text("def mine(): return 'mine'\n")
    (directory / "celeryconfig.py").write_text("broker_url = 'redis://127.0.0.1:9/0'\n")
    return directory


def test_a_worker_starts_by_the_librarys_own_name(world: World, theirs: Path) -> None:
    """And says which `celeryconfig.py` it did not read. Failed with "Module 'tasks' has no attribute 'celery'"."""
    log = theirs / "worker.log"
    with log.open("wb") as stderr:
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "celery", "-q", "-A", "neo4j_queue.celery"),
                *("worker", "-c", "1", "-n", "named@test"),
            ],
            cwd=theirs,
            env={**world.environment, "PYTHONPATH": os.pathsep.join([str(theirs), str(ROOT)])},
            stdout=subprocess.DEVNULL,
            stderr=stderr,
            start_new_session=True,
        )
    try:
        world.create(3)
        world.drained(within_s=90)
        said = log.read_text()
        assert "foreign_celeryconfig" in said
        assert str(theirs / "celeryconfig.py") in said
    finally:
        os.killpg(process.pid, 9)
        process.wait()


@pytest.mark.parametrize("first", ["import tasks", ""])
def test_a_program_keeps_its_own_module_and_is_told(theirs: Path, first: str) -> None:
    """`open_graph` refuses with what to do; the program's `tasks` is its own, before and afterwards."""
    program = f"""
{first}
import neo4j_queue
try:
    neo4j_queue.open_graph
except ImportError as error:
    print(error)
import tasks
print(tasks.mine())
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=theirs,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(theirs), str(ROOT)])},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    refusal, mine = done.stdout.splitlines()
    assert str(theirs / "tasks.py") in refusal
    assert "rename it" in refusal
    assert mine == "mine"


def test_the_apps_of_both_names_are_one() -> None:
    import neo4j_queue
    from tasks import celery

    assert neo4j_queue.celery is celery

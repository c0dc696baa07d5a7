"""`neo4j-queue demo` as people run it: a process of its own, with real workers, beat and databases."""

import contextlib
import itertools
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest
import redis

from neo4j_queue.database import Database
from neo4j_queue.jobs import JobRequest
from neo4j_queue.local_services import LocalServices
from neo4j_queue.mock_provider import error
from neo4j_queue.queue import EmbedQueue
from neo4j_queue.settings import Settings
from tests.celery_processes import ROOT
from tests.provider import ProviderServer
from tests.waiting import wait_until

# Two cores that others use too: loading and draining 5,800 entities took up to two minutes there.
DEMO_S = 300.0
# A run that can be disturbed in its middle: 2,000 entities are 8 batches, a second each, two at once.
SLOW = {"MOCK_EMBEDDING_LATENCY_MS": "1500"}
SLOW_DEMO = ("--provider", "mock", "--limit", "2000", "--question", "anything")

RIGHT_ANSWERS = {
    "compress a file": r"(gzip|zlib|bz2|lzma|zipfile|tarfile)\b|shutil\.make_archive",
    "parse command line options": r"(argparse|optparse|getopt)\b",
    "wait for several threads": r"threading\.(Thread\.join|Barrier)|concurrent\.futures\.(wait|as_completed)",
}

JOBS = """
MATCH (j:EmbedJob)
RETURN count(j) AS jobs, count(CASE WHEN j.status = 'completed' THEN 1 END) AS completed,
       max(j.attempts) AS attempts
"""
ENTITIES = "MATCH (e:Entity) RETURN count(e) AS entities, count(e.embedding) AS vectors"


@dataclass
class Demo:
    """A running demo; `output` is its stdout and stderr so far."""

    process: psutil.Popen
    file: Path

    @property
    def output(self) -> str:
        return self.file.read_text(encoding="utf-8")

    def ends(self, within_s: float = DEMO_S) -> int:
        """Waits for the end; the exit code."""
        try:
            return int(self.process.wait(within_s))
        except psutil.TimeoutExpired:
            raise AssertionError(f"the demo did not end:\n{self.output}") from None

    def celery(self, *words: str) -> list[psutil.Process]:
        """Its live Celery main processes whose command line has all these words."""
        found = []
        for child in self.process.children():
            with contextlib.suppress(psutil.NoSuchProcess):  # it may end while it is looked at
                if child.status() != psutil.STATUS_ZOMBIE and {"celery", *words} <= set(child.cmdline()):
                    found.append(child)
        return found


@dataclass(frozen=True)
class Place:
    """Where demos of these tests run: the session's services, emptied."""

    services: LocalServices
    graph: Database
    jobs: Database
    directory: Path
    numbers: Iterator[int] = field(default_factory=itertools.count)

    @contextmanager
    def demo(self, *arguments: str, **environment: str) -> Iterator[Demo]:
        config = self.services.config
        command = [
            *(sys.executable, "-m", "neo4j_queue.cli", "demo", *arguments),
            *("--directory", str(config.directory)),
            *("--graph-port", str(config.graph_port)),
            *("--jobs-port", str(config.jobs_port)),
            *("--redis-port", str(config.redis_port)),
        ]
        file = self.directory / f"demo{next(self.numbers)}.out"
        with file.open("wb") as out:
            process = psutil.Popen(
                command,
                cwd=self.directory,
                env={
                    "PATH": "/usr/bin:/bin",
                    "HOME": str(Path.home()),
                    "PYTHONPATH": str(ROOT),
                    **environment,
                },
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
            )
        try:
            yield Demo(process, file)
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                try:
                    process.wait(60)
                except psutil.TimeoutExpired:
                    process.kill()

    def completed(self) -> int:
        return int(self.jobs.read(JOBS)[0]["completed"])

    def assert_all_embedded(self, entities: int) -> None:
        """Every entity has its vector, every job is completed, and no attempt was burnt."""
        assert self.graph.read(ENTITIES)[0].data() == {"entities": entities, "vectors": entities}
        jobs = self.jobs.read(JOBS)[0]
        assert (jobs["jobs"], jobs["completed"], jobs["attempts"]) == (entities, entities, 0)


@pytest.fixture
def place(
    services: LocalServices, graph_db: Database, jobs_db: Database, redis_url: str, tmp_path: Path
) -> Place:
    assert redis_url == services.redis.url
    return Place(services, graph_db, jobs_db, tmp_path)


def in_the_middle(place: Place) -> None:
    """Returns when some of the jobs are done and most are not."""
    wait_until(lambda: 0 < place.completed() < 2000, within_s=120, what="a part of the jobs is done")


def answers(output: str) -> dict[str, list[str]]:
    """The names that each question was answered with."""
    found: dict[str, list[str]] = {}
    question = ""
    for line in output.splitlines():
        if line.endswith("?"):
            question = line[:-1]
        elif (hit := re.match(r"  \d\.\d{3}  (\S+)", line)) and question:
            found.setdefault(question, []).append(hit[1])
    return found


def test_embeds_the_whole_library_answers_and_does_nothing_twice(place: Place) -> None:
    with place.demo() as first:
        assert first.ends() == 0, first.output
    entities = int(place.graph.read(ENTITIES)[0]["entities"])
    assert entities > 5_000
    place.assert_all_embedded(entities)
    found = answers(first.output)
    assert list(found) == list(RIGHT_ANSWERS)
    for question, names in found.items():
        assert len(names) == 5
        assert any(re.match(RIGHT_ANSWERS[question], name) for name in names), first.output
    relations = place.graph.read("MATCH (:Entity)-[r:CONTAINS]->(:Entity) RETURN count(r) AS n")[0]["n"]
    assert relations > 5_000
    assert f"neo4j-queue down --directory {place.services.config.directory}" in first.output
    assert "celery -A tasks flower" in first.output
    assert "\x1b" not in first.output  # no escapes in a pipe

    with place.demo("--question", "copy a directory tree") as second:
        assert second.ends() == 0, second.output
    assert "Nothing to embed" in second.output
    assert "shutil.copytree" in answers(second.output)["copy a directory tree"]
    place.assert_all_embedded(entities)


def test_a_killed_worker_is_replaced_and_costs_nothing(place: Place) -> None:
    """kill -9 in the middle. Without the restart in `Watch` this ends as "nothing moved"."""
    with place.demo(*SLOW_DEMO, **SLOW) as demo:
        in_the_middle(place)
        (worker,) = demo.celery("worker", "embed")
        worker.kill()
        assert demo.ends() == 0, demo.output
    assert "embed died (signal 9); a new one has pid" in demo.output
    place.assert_all_embedded(2000)


def test_a_flushed_redis_costs_nothing(place: Place) -> None:
    with place.demo(*SLOW_DEMO, **SLOW) as demo:
        in_the_middle(place)
        with redis.Redis.from_url(place.services.redis.url) as client:
            client.flushall()
        assert demo.ends() == 0, demo.output
    place.assert_all_embedded(2000)


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_demo_leaves_no_worker(place: Place, signum: signal.Signals) -> None:
    with place.demo(*SLOW_DEMO, **SLOW) as demo:
        in_the_middle(place)
        family = demo.process.children(recursive=True)
        assert len(demo.celery()) == 3
        demo.process.send_signal(signum)
        assert demo.ends(60) == 130, demo.output
    assert [child for child in family if _runs(child)] == []
    assert place.services.graph.pid  # the services stay, to look around


def _runs(process: psutil.Process) -> bool:
    """False for one that has ended and that its new parent has not collected yet."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_a_halted_queue_ends_the_demo_with_the_reason_and_the_next_run_goes_on(place: Place) -> None:
    with ProviderServer(dimensions=256) as provider:
        provider.reply_always(error(401, message="this key is no good"))
        environment = {
            "OPENAI_API_KEY": "sk-test",
            "OPENAI_BASE_URL": provider.url,
            "OPENAI_EMBEDDING_DIMENSIONS": "256",
        }
        with place.demo("--provider", "openai", "--limit", "300", **environment) as demo:
            assert demo.ends() == 1, demo.output
        provider.reply_always(None)
        with place.demo("--provider", "openai", "--limit", "300", **environment) as again:
            assert again.ends() == 0, again.output
    assert "the queue is halted: AuthenticationError: HTTP 401" in demo.output
    place.assert_all_embedded(300)
    assert "sk-test" not in (place.services.config.directory / "demo.env").read_text(encoding="utf-8")


def test_a_worker_that_dies_again_and_again_ends_the_demo_with_its_log(place: Place) -> None:
    with place.demo(*SLOW_DEMO, **SLOW) as demo:
        while demo.process.poll() is None:
            for worker in demo.celery("worker", "embed"):
                worker.kill()
        assert demo.ends() == 1
    assert "embed died (signal 9); the end of " in demo.output
    assert demo.output.count("a new one has pid") == 3


def test_an_interrupted_demo_goes_on_with_another_limit(place: Place) -> None:
    """Its own jobs are no reason to refuse, also where the library of this run lacks their entities."""
    with place.demo(*SLOW_DEMO, **SLOW) as demo:
        in_the_middle(place)
        demo.process.send_signal(signal.SIGINT)
        assert demo.ends(60) == 130, demo.output
    assert place.completed() < 2000
    with place.demo("--provider", "mock", "--limit", "100") as again:
        assert again.ends() == 0, again.output
    place.assert_all_embedded(2000)


def test_jobs_of_another_graph_are_left_alone_and_refuse_the_demo(place: Place, settings: Settings) -> None:
    """Guard: `refuse_others`. Without it the demo's workers ended them as `entity_deleted`."""
    with EmbedQueue.connect(settings) as queue:
        (job,) = queue.enqueue(JobRequest("978-3", "text-embedding-3-small", "0" * 16))
        with place.demo("--provider", "mock", "--limit", "50", "--stop") as demo:
            assert demo.ends() == 75, demo.output
        found = queue.job(job.id)
        assert found is not None
        assert found["status"] == "pending"
    refusal = [line for line in demo.output.splitlines() if "978-3" in line]
    assert len(refusal) == 1
    assert "--directory" in refusal[0]
    assert place.graph.read(ENTITIES)[0]["entities"] == 0
    assert place.services.jobs.pid  # not ours to stop, in spite of --stop


def test_a_provider_without_its_key_is_refused_before_anything_starts(place: Place) -> None:
    with place.demo("--provider", "openai") as demo:
        assert demo.ends() == 78
    assert "OPENAI_API_KEY" in demo.output
    assert place.graph.read(ENTITIES)[0]["entities"] == 0

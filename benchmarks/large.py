"""What people run on a large queue (`status`, `health`, `doctor`, a lease, an enqueue) beside the same on a small one.

    python -m benchmarks.large                                     ten million jobs, two million entities
    python -m benchmarks.large --jobs 1000000 --entities 200000

The rows are written by Neo4j's import tool before the servers start: ten million take minutes, not hours.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Annotated
from urllib.request import urlopen

import typer
from rich.console import Console

from benchmarks.report import Report, Table, Target, console
from benchmarks.stage import Say, Stage
from neo4j_queue.checks.doctor import examine
from neo4j_queue.errors import Neo4jQueueError
from neo4j_queue.graph import EntityGraph
from neo4j_queue.http.app import FRESH_S
from neo4j_queue.interruption import terminable
from neo4j_queue.jobs import JobRequest
from neo4j_queue.local_services import LocalServices, ServicesConfig, free_ports
from neo4j_queue.local_services.neo4j_files import neo4j_home
from neo4j_queue.local_services.neo4j_server import Neo4jServer
from neo4j_queue.local_services.requirements import java_command
from neo4j_queue.queue import EmbedQueue
from neo4j_queue.reconcile.coverage import known_coverage

SMALL = 1_000
# Of the jobs: due, and failed for good; the others are completed.
DUE = 100_000
FAILED = 5_000
LEASE_JOBS = 200
PAGE = 1_000
# Each figure is a median of so many, after some that let the planner see the size.
TIMES, UNMEASURED = 15, 5
COMMANDS = 5
# An index over ten million nodes is populated in some minutes.
INDEXES_WITHIN_S = 1_800.0
BOUND_MS = 300
ANNOUNCED = "serving health and metrics on "
# A look that takes longer is a failure.
COMMAND_S = 30.0
# A page cache that holds the indexes: an operator of ten million jobs gives the server more than the default.
MEMORY = {"server.memory.pagecache.size": "3g"}

Figures = dict[str, float]


def main(
    jobs: Annotated[int, typer.Option(help="Jobs in the jobs database.", min=10_000)] = 10_000_000,
    entities: Annotated[int, typer.Option(help="Entities in the graph.", min=10_000)] = 2_000_000,
) -> None:
    """Measures on small databases, then on large ones."""
    news, tables = Console(stderr=True), console()

    def say(line: str) -> None:
        news.print(line, highlight=False)

    try:
        # Both stand before anything is measured, so that little time lies between a figure and its baseline.
        with _stage(say, jobs, entities) as full, _stage(say, SMALL, SMALL) as few:
            small, large = _measure(few), _measure(full)
    except Neo4jQueueError as error:
        news.print(str(error), style="red")
        raise typer.Exit(error.exit_code) from None
    report = _report(jobs, entities, small, large)
    report.show(tables)
    news.print(f"written to {report.save()}")


def _report(jobs: int, entities: int, small: Figures, large: Figures) -> Report:
    report = Report("large", {"jobs": jobs, "entities": entities})
    table = Table(
        f"Milliseconds (medians) at {jobs:,} jobs and {entities:,} entities",
        {"what": "what", "small": f"at {SMALL:,}", "large": "at all of them", "ratio": "x baseline"},
        f"the same with {SMALL:,} jobs and entities",
    )
    for what, ms in large.items():
        table.add(what=what, small=small[what], large=ms, ratio=ms / small[what])
    report.tables.append(table)
    report.targets += [
        Target(f"{what}, ms", large[what], BOUND_MS)
        for what in ("status", "health", "doctor", "lease and release", "enqueue of a page")
    ]
    return report


# -- the databases ---------------------------------------------------------------------------------------------


@contextmanager
def _stage(say: Say, jobs: int, entities: int) -> Iterator[Stage]:
    with terminable():
        directory = Path(tempfile.mkdtemp(prefix="neo4j-queue-bench-"))
        config = ServicesConfig(
            *free_ports(3), directory, throwaway=True, java_heap="2g", neo4j_settings=MEMORY
        )
        services = LocalServices(config)
        try:
            _import(services.jobs, "jobs", _jobs(jobs), say)
            _import(services.graph, "entities", _entities(entities), say)
            services.up()
            stage = Stage(services, directory, say)
            began = time.monotonic()
            with EmbedQueue.connect(stage.settings()) as queue, _graph(stage) as graph:
                stage.prepare_jobs(queue.database)
                queue.database.autocommit("CALL db.awaitIndexes($s)", timeout_s=INDEXES_WITHIN_S, s=1_800)
                stage.prepare_graph(graph.database, stage.settings())
                graph.database.autocommit("CALL db.awaitIndexes($s)", timeout_s=INDEXES_WITHIN_S, s=1_800)
            say(f"  indexes after {time.monotonic() - began:.0f} s")
            yield stage
        finally:
            services.down()
            shutil.rmtree(directory, ignore_errors=True)


def _graph(stage: Stage) -> EntityGraph:
    return EntityGraph.from_settings(stage.settings())


def _import(server: Neo4jServer, what: str, lines: Iterator[str], say: Say) -> None:
    """Fills the store of a server that has not started yet."""
    server.directory.mkdir(parents=True, exist_ok=True)
    server.prepare()
    file = server.directory / "import" / f"{what}.csv"
    began = time.monotonic()
    with file.open("w", encoding="utf-8") as out:
        out.writelines(lines)
    # The import tool takes its places from the configuration; it refuses a store that is there.
    environment = os.environ | {
        "NEO4J_HOME": str(server.directory),
        "NEO4J_CONF": str(server.directory / "conf"),
    }
    jars = f"{neo4j_home() / 'lib'}/*"
    label = "EmbedJob" if what == "jobs" else "Entity"
    command = [java_command(), "-Xmx2g", "-cp", jars, "org.neo4j.cli.AdminTool", "database", "import", "full"]
    command += [server.database, f"--nodes={label}={file}", "--high-parallel-io=on"]
    command += [f"--report-file={server.directory / 'import.report'}"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Neo4jQueueError(f"the import of {what} failed:\n{done.stderr[-2_000:] or done.stdout[-2_000:]}")
    file.unlink()
    say(f"  {what} imported in {time.monotonic() - began:.0f} s")


def _jobs(count: int) -> Iterator[str]:
    now = time.time_ns() // 1_000_000
    yield (
        "id:string,entity_uid:string,model:string,version:string,status:string,priority:long,created_at:long,"
        "available_at:long,processed_at:long,attempts:long,max_attempts:long,crashes:long,est_tokens:long,"
        "outcome:string,failure_reason:string,_lock:boolean,:LABEL\n"
    )
    due, failed = min(DUE, count // 10), min(FAILED, count // 100)
    for n in range(count):
        head = f"job-{n},entity-{n},mock-256,{n:016x}"
        at = now - (count - n)
        if n < due:
            yield f"{head},pending,1,{at},{at},,0,3,0,20,,,true,EmbedJob\n"
        elif n < due + failed:
            yield f"{head},failed,1,{at},{at},{at},3,3,0,20,,max_retries_exceeded,true,EmbedJob;EmbedFailed\n"
        else:
            yield f"{head},completed,1,{at},{at},{at},1,3,0,20,embedded,,true,EmbedJob;EmbedCompleted\n"


def _entities(count: int) -> Iterator[str]:
    yield "name:string,type:string,observations:string[]\n"
    for n in range(count):
        yield f"entity-{n},thing,it is number {n};it is one of many\n"


# -- the figures -----------------------------------------------------------------------------------------------


def _measure(stage: Stage) -> Figures:
    settings = stage.settings(embed_batch_size=LEASE_JOBS)
    drawn = iter(range(10**9))
    with EmbedQueue.connect(settings) as queue, _graph(stage) as graph:

        def status() -> None:
            known_coverage(graph, queue, queue.status().unfinished)

        def lease() -> None:
            (granted,) = queue.lease("benchmark", batches=1).leases
            queue.release(granted.token, granted.job_ids)

        def enqueue() -> None:
            batch = [next(drawn) for _ in range(PAGE)]
            queue.enqueue([JobRequest(f"new-{n}", "mock-256", f"{n:016x}") for n in batch])

        acts: dict[str, Callable[[], object]] = {
            "status": status,
            "health": queue.health,
            "doctor": lambda: examine(settings),
            "lease and release": lease,
            "enqueue of a page": enqueue,
        }
        figures = {what: _timed(act, TIMES) for what, act in acts.items()}
    with _serving(stage) as url:
        # Looks are shared for a second: each of these is a look of its own.
        figures["GET /metrics"] = _timed(lambda: _get(f"{url}metrics"), TIMES, rest_s=FRESH_S + 0.1)
    for command in (["--version"], ["status", "--json"], ["health", "--json"], ["doctor"]):
        figures[f"neo4j-queue {command[0]}"] = _timed(_command(stage, command), COMMANDS)
    return figures


@contextmanager
def _serving(stage: Stage) -> Iterator[str]:
    """A `neo4j-queue serve`; its address."""
    command = [sys.executable, "-m", "neo4j_queue.cli", "serve", "--port", "0"]
    with subprocess.Popen(
        command, env=stage.environment(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stderr is not None
            told = (line for line in process.stderr if ANNOUNCED in line)
            yield next(told).partition(ANNOUNCED)[2].strip()
        finally:
            process.terminate()


def _get(url: str) -> bytes:
    with urlopen(url, timeout=COMMAND_S) as answer:
        return bytes(answer.read())


def _timed(act: Callable[[], object], times: int, rest_s: float = 0.0) -> float:
    taken = []
    for n in range(UNMEASURED + times):
        time.sleep(rest_s)
        began = time.perf_counter()
        act()
        if n >= UNMEASURED:
            taken.append((time.perf_counter() - began) * 1000)
    return median(taken)


def _command(stage: Stage, arguments: list[str]) -> Callable[[], object]:
    """A whole command; its exit code may be 1, for there are no workers."""
    command = [sys.executable, "-m", "neo4j_queue.cli", *arguments]
    return lambda: subprocess.run(command, env=stage.environment(), capture_output=True, check=False)


if __name__ == "__main__":
    typer.run(main)

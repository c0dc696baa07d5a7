"""The demo from start to finish: services, schema, workers, entities, vectors, answers."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import shorten

from neo4j_queue import schema
from neo4j_queue.demo import GRAPH_PORT, JOBS_PORT, REDIS_PORT, corpus, environment
from neo4j_queue.demo.others import refuse_others
from neo4j_queue.demo.processes import Crew
from neo4j_queue.demo.watching import Watch
from neo4j_queue.embedders import Embedder, open_embedder
from neo4j_queue.errors import Neo4jQueueError, SettingsError
from neo4j_queue.graph import EntityGraph
from neo4j_queue.graph.entities import EntityInput
from neo4j_queue.interruption import terminable
from neo4j_queue.jobs import PRIORITY_DEFAULT
from neo4j_queue.local_services import LocalServices, Report, ServicesConfig
from neo4j_queue.local_services.config import data_directory
from neo4j_queue.queue import EmbedQueue
from neo4j_queue.reconcile.sweep import sweep

QUESTIONS = ("compress a file", "parse command line options", "wait for several threads")
ANSWERS = 5
# The first sweep finds what loading left, a second one only what is changed meanwhile.
SWEEPS = 3
# A line of a terminal: score, name and the first words of what is said of it.
NAME_WIDTH = 36
SAID_WIDTH = 60

HINT = """
The services go on running, workers and beat are stopped. Look around, in a shell of its own (what is set
here goes before any .env):
  . {shell_file}
  neo4j-queue status
  neo4j-queue search "draw a random number"
  celery -A tasks worker                            # and in another shell: celery -A tasks beat
  celery -A tasks flower --address=127.0.0.1        # http://127.0.0.1:5555

Stop the services:
  neo4j-queue down --directory {directory}

Your own graph, in another shell and on services of its own (neo4j-queue up): set NEO4J_URI, NEO4J_USERNAME and
NEO4J_PASSWORD in .env, and what to embed: EMBED_ENTITY_LABEL=Book, EMBED_ENTITY_KEY=isbn,
EMBED_TEXT_PROPERTIES=title,summary. Then neo4j-queue init, neo4j-queue enqueue --all, and a worker.
docs/how-to/your-own-graph.md shows each step."""

Say = Callable[[str], None]
Advance = Callable[[int, int | None], None]
Progress = Callable[[str], AbstractContextManager[Advance]]
News = Callable[[], AbstractContextManager[Report]]


class DemoFailedError(Neo4jQueueError):
    """The demo did not reach its end: a job failed, an entity has no vector, or nothing moves."""


def services_config(
    graph_port: int = GRAPH_PORT,
    jobs_port: int = JOBS_PORT,
    redis_port: int = REDIS_PORT,
    directory: Path | None = None,
) -> ServicesConfig:
    """The demo's own services; their data can be made again, so they keep no transaction logs."""
    return ServicesConfig(
        graph_port, jobs_port, redis_port, directory or data_directory() / "demo", throwaway=True
    )


@dataclass(frozen=True, slots=True)
class Options:
    """What a run of the demo does. `limit` entities (None = all); `stop` ends the services afterwards."""

    questions: Sequence[str] = QUESTIONS
    limit: int | None = None
    provider: str = "local"
    stop: bool = False
    services: ServicesConfig = field(default_factory=services_config)

    @property
    def shell_file(self) -> Path:
        """The file to source for a shell that means the demo."""
        return self.services.directory / "demo.env"

    @property
    def logs(self) -> Path:
        """Where the logs of workers and beat are."""
        return self.services.directory / "logs"


def run(options: Options, *, say: Say, progress: Progress, news: News) -> None:
    """Runs the demo. Raises `DemoFailedError`, `ProcessLostError`, `ServicesInUse` or a `ServiceError` when it cannot
    succeed.

    `say` takes lines for people, `progress` makes a bar, `news` shows what the services do. Workers and beat are
    stopped in every case, the services only with `options.stop`.
    """
    with terminable(), ExitStack() as stack:
        services = LocalServices(options.services)
        variables = environment.variables(services.environment(), options.provider)
        settings = environment.DemoSettings.of(variables)
        # Before anything is started: a provider without its key is an error at once.
        embedder = stack.enter_context(closing(open_embedder(settings)))
        library = corpus.collect(options.limit)
        entities, relations = len(library.entries), len(library.relations)
        say(f"The Python standard library: {entities:,} entities, {relations:,} relations")
        with news() as report:
            LocalServices(options.services, report).up()
        environment.write_shell_file(options.shell_file, variables)
        queue = stack.enter_context(EmbedQueue.connect(settings))
        graph = stack.enter_context(_open_graph(settings, queue))
        _prepare(graph, queue, settings)
        if options.stop:  # not before: servers that others work on are not ours to stop
            stack.callback(services.down)
        try:
            with Crew(environment.process_environment(variables), options.logs) as crew:
                say(f"Two Celery workers and beat are starting; their logs are in {options.logs}")
                watch = Watch(queue, crew, say)
                _load(library, graph, progress)
                with progress("embedding") as advance:
                    seconds = _drain(watch, graph, queue, advance, say)
            _tell(queue, graph, watch.ended, seconds, say)
        except Neo4jQueueError:
            say(f"\nTo find out more: . {options.shell_file} && neo4j-queue doctor")
            raise
        _answer(graph, embedder, options.questions, say)
    _hint(options, say)


def _open_graph(settings: environment.DemoSettings, queue: EmbedQueue) -> EntityGraph:
    # What the queue was too slow for is told by `_drain`, in its own words and between the bars.
    return EntityGraph.from_settings(settings, queue.enqueue, on_deferred=lambda _entities, _reason: None)


def _prepare(graph: EntityGraph, queue: EmbedQueue, settings: environment.DemoSettings) -> None:
    """Schema of both databases; what an earlier run left halted or failed is tried again.

    Raises `ServicesInUse` when it is not the demo's.
    """
    problems = [
        problem
        for found in (schema.migrate_jobs(queue.database), schema.migrate_graph(graph.database, settings))
        for problem in found.problems
    ]
    if problems:
        raise SettingsError(problems)
    refuse_others(queue, graph, settings)
    queue.resume()
    queue.retry_failed()


def _load(library: corpus.Corpus, graph: EntityGraph, progress: Progress) -> None:
    """Writes entities (each with its outbox mark and its job) and relations; what is there stays as it is."""
    with progress("loading entities and relations") as advance:
        total = len(library.entries) + len(library.relations)
        entities = (EntityInput(e.name, e.entity_type, e.observations) for e in library.entries)
        loaded = graph.load_entities(
            entities, priority=PRIORITY_DEFAULT, progress=lambda so_far: advance(so_far.entries, total)
        )
        relations = ((container, "CONTAINS", contained) for container, contained in library.relations)
        graph.load_relations(relations, progress=lambda done: advance(loaded.entries + done, total))


def _drain(watch: Watch, graph: EntityGraph, queue: EmbedQueue, advance: Advance, say: Say) -> float:
    """Waits until nothing is left to embed; the seconds it took."""
    seconds = watch.until_drained(advance)
    # A writer waits two seconds for the queue and no longer: on a busy machine some entities are only marked.
    # Beat's sweep would find them within five minutes; a person watches the demo.
    for _ in range(SWEEPS):
        late = sweep(graph, queue).queued
        if not late:
            break
        say(
            f"{late:,} entities are queued only now, as is meant: no writer waits long for the queue; if it is slow, "
            "an entity is marked, and a sweep finds it."
        )
        seconds += watch.until_drained(advance)
    return seconds


def _tell(queue: EmbedQueue, graph: EntityGraph, ended: int, seconds: float, say: Say) -> None:
    """Says where things stand. Raises `DemoFailedError` unless every entity has its vector and no job failed."""
    status, coverage = queue.status(), graph.coverage()
    if ended:
        say(f"{ended:,} jobs done in {seconds:.1f} s ({ended / seconds:,.0f}/s).")
    else:
        say("Nothing to embed: every entity has the vector of its text already.")
    say(
        f"Jobs:     {status.pending:,} pending, {status.delayed:,} delayed, {status.processing:,} processing, "
        f"{status.completed:,} completed, {status.failed:,} failed"
    )
    say(
        f"Entities: {coverage.entities:,}, of which {coverage.fresh:,} fresh, {coverage.stale:,} stale, "
        f"{coverage.missing:,} without a vector"
    )
    if status.failed:
        raise DemoFailedError(f"{status.failed:,} jobs failed: neo4j-queue jobs list --status failed")
    if coverage.fresh < coverage.entities:
        raise DemoFailedError(f"{coverage.entities - coverage.fresh:,} entities have no fresh vector")


def _answer(graph: EntityGraph, embedder: Embedder, questions: Sequence[str], say: Say) -> None:
    for question in questions:
        say(f"\n{question}?")
        for hit in graph.search(
            question, ANSWERS, embed=lambda text: embedder.embed([text], query=True).vectors[0]
        ):
            said = next(iter(hit.properties.get("observations") or ()), "")
            say(f"  {hit.score:.3f}  {hit.uid:<{NAME_WIDTH}} {shorten(said, SAID_WIDTH, placeholder=' …')}")


def _hint(options: Options, say: Say) -> None:
    directory = options.services.directory
    if options.stop:
        say(f"\nThe services are stopped, their data is in {directory}. Start them again: neo4j-queue demo")
        return
    say(HINT.format(shell_file=options.shell_file, directory=directory))

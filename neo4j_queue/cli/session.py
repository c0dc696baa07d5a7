"""What the commands share: settings, databases that give up quickly, and the nudge to the workers."""

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn, TypeVar

import typer

from neo4j_queue.cli import driver, output

if TYPE_CHECKING:
    from neo4j_queue.database import Address, Database
    from neo4j_queue.graph import EntityGraph
    from neo4j_queue.queue import EmbedQueue
    from neo4j_queue.queue.leases import Worker
    from neo4j_queue.settings import Settings
    from tasks.nudge import Nudge

# Seconds of retries after a transient error: a person waits.
RETRY_TIME_S = 3.0
# A database that takes connections and says nothing: tried twice, since the driver repeats what failed.
ACQUIRE_S = 5.0
# A frozen database keeps its socket open and silent; the driver would wait for minutes.
ANSWER_WITHIN_S = 20.0
# Seconds to ask for the id of the graph: it only makes a warning more exact.
GRAPH_ID_WITHIN_S = 3.0

T = TypeVar("T")


@dataclass
class Options:
    """The options before the command: `--log-format`, `--verbose`, `--debug`."""

    style: str | None = None
    verbose: bool = False
    debug: bool = False


options = Options()


def load_settings(*, needs_retention: bool = False, warn_of_names: bool = True) -> "Settings":
    """The settings, with logging set up by them. Raises `SettingsError`.

    `warn_of_names`: warn of each variable that looks like a setting and is none.
    """
    driver.load()
    from neo4j_queue import log
    from neo4j_queue.settings import Role, Settings
    from neo4j_queue.settings.unknown_names import suspicious_names

    at_screen = "console" if sys.stderr.isatty() else None
    log.configure("cli", style=options.style or at_screen, quiet_libraries=not options.verbose)
    if warn_of_names:
        for line in suspicious_names():
            warn(line)
    settings = Settings.load(Role.CLI, needs_retention=needs_retention)
    # JSON between words is nothing for a person; one who has set LOG_FORMAT gets it.
    style = options.style or (None if "log_format" in settings.model_fields_set else at_screen)
    log.configure("cli", settings, style=style, quiet_libraries=not options.verbose)
    return settings


def open_database(address: "Address") -> "Database":
    """A database that gives up while a person still waits."""
    from neo4j_queue.database import Database

    return Database(address, retry_time_s=RETRY_TIME_S, acquire_s=ACQUIRE_S)


@contextmanager
def open_databases(settings: "Settings") -> Iterator[tuple["Database", "Database"]]:
    """Graph and jobs database."""
    with (
        open_database(settings.graph_address()) as graph,
        open_database(settings.jobs_address()) as jobs,
    ):
        yield graph, jobs


@contextmanager
def open_jobs() -> Iterator[tuple["Database", "Settings"]]:
    """The jobs database alone."""
    driver.load()
    settings = load_settings()
    with open_database(settings.jobs_address()) as jobs:
        yield jobs, settings


@contextmanager
def open_queue(*, needs_retention: bool = False) -> Iterator["EmbedQueue"]:
    """The queue, for commands that need no graph."""
    driver.load()
    from neo4j_queue.queue import EmbedQueue

    settings = load_settings(needs_retention=needs_retention)
    with EmbedQueue(open_database(settings.jobs_address()), settings) as queue:
        refuse_old_schema(queue.database)
        yield queue


@dataclass(frozen=True)
class Both:
    """What the commands that need everything work with."""

    settings: "Settings"
    graph: "EntityGraph"
    queue: "EmbedQueue"


@contextmanager
def open_both() -> Iterator[Both]:
    """The graph, which enqueues into the queue, and the queue."""
    driver.load()
    from neo4j_queue.graph import EntityGraph
    from neo4j_queue.queue import EmbedQueue

    settings = load_settings()
    with open_databases(settings) as (graph_database, jobs_database):
        queue = EmbedQueue(jobs_database, settings)
        graph = EntityGraph.from_settings(
            settings, queue.enqueue, database=graph_database, book_query=queue.book_query
        )
        yield Both(settings, graph, queue)


def refuse_old_schema(jobs: "Database") -> None:
    """Raises `SettingsError` for a jobs database that is not prepared for this program."""
    from neo4j_queue.schema import refuse_unprepared

    refuse_unprepared(jobs)


def in_time(what: str, ask: Callable[[], T], within_s: float = ANSWER_WITHIN_S) -> T:
    """What `ask` returns or raises. Raises `TemporarilyUnavailable` when `what` has not answered after `within_s` s.

    For reads only: a late call goes on, in a thread that does not outlive the command.
    """
    from neo4j_queue.in_time import InTime

    return InTime(what)(ask, within_s)


def warn_of_other_workers(
    workers: "Callable[[], Iterable[Worker]]", settings: "Settings", graph: "Database | None"
) -> None:
    """Warns in one line when workers of the census run with other settings than the caller's.

    `graph` is None where it is known not to answer: then all but the graph itself is compared.
    """
    from neo4j_queue.checks import fingerprint
    from neo4j_queue.errors import TemporarilyUnavailable

    there = list(workers())
    if not there:
        return
    try:
        own = in_time("the graph", lambda: fingerprint.fingerprint(settings, graph), GRAPH_ID_WITHIN_S)
    except TemporarilyUnavailable:
        own = fingerprint.fingerprint(settings, None)
    line = fingerprint.disagreement(there, own)
    if line is not None:
        warn(line)


def refuse_other_settings(both: Both, *, force: bool) -> None:
    """Raises `SettingsError` when other settings are in force than these; with `force` it only warns.

    Warns as well when workers that are still alive run with others.
    """
    from neo4j_queue.checks import fingerprint, in_force
    from neo4j_queue.errors import SettingsError

    own = fingerprint.fingerprint(both.settings, both.graph.database)
    line = in_force.refusal(in_force.read(both.queue.database), own)
    if line is not None:
        if not force:
            raise SettingsError([line])
        warn(line)
    warn_of_other_workers(both.queue.census.workers, both.settings, both.graph.database)


def nudger() -> "Nudge":
    """Tells the workers that jobs are due. Call it any number of times; it returns at once and never raises.

    Without a broker they learn it from beat; the log says so.
    """
    from tasks.nudge import Nudge

    return Nudge()


def nudge() -> None:
    """Tells the workers once, and waits until the message is sent or the broker is known to be away."""
    wish = nudger()
    wish()
    tell_unheard(wish)


def tell_unheard(wish: "Nudge") -> None:
    """Warns when the broker did not take the last nudge."""
    if not wish.flush():
        warn("the broker does not answer (`neo4j-queue doctor`): workers hear of these jobs when it does")


def at_terminal() -> bool:
    """True if there is a person who can be asked."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def confirm(question: Callable[[], str], *, yes: bool) -> None:
    """Goes on if the person says so, or has said `--yes`; ends the command otherwise.

    A program cannot be asked: without a terminal this is a usage error, so that no script waits or goes on by mistake.
    """
    if yes:
        return
    if not at_terminal():
        raise typer.BadParameter("there is no terminal to ask; say --yes", param_hint="--yes")
    if not typer.confirm(output.visible(question()), err=True):
        raise typer.Exit(1)


def warn(line: str) -> None:
    """A line for people, beside the answer."""
    output.print_line(f"neo4j-queue: warning: {line}", sys.stderr)


def warn_of_defaults() -> None:
    """Warns when this directory has no `.env` and addresses are defaults: for when a service does not answer."""
    from neo4j_queue.checks.defaults import without_env_file
    from neo4j_queue.settings import Settings

    line = without_env_file(Settings.lenient())
    if line is not None:
        warn(line)


def refuse(line: str) -> NoReturn:
    """Ends the command with a bad answer (exit code 1) and one line that says why."""
    output.print_line(f"neo4j-queue: {line}", sys.stderr)
    raise typer.Exit(1)

"""`status` and `health`: how deep the queue is, how fresh the graph is, how embedding fares."""

from typing import TYPE_CHECKING, Annotated

import typer

from neo4j_queue.cli import driver, output, session

if TYPE_CHECKING:
    from collections.abc import Mapping

    from neo4j_queue.checks.health import Checkup, Report
    from neo4j_queue.database import Database
    from neo4j_queue.queue import EmbedQueue
    from neo4j_queue.queue.leases import QueueStatus
    from neo4j_queue.queue.outlook import Outlook
    from neo4j_queue.queue.reasons import Reason
    from neo4j_queue.reconcile.coverage import KnownCoverage
    from neo4j_queue.settings import Settings

BAD = 1
TEMPORARY = 75
# Of a wait: a month. Infinity is a number too, and no clock can be told to wait for it.
TIMEOUT_MAX_S = 30 * 86_400
# Less than the timeout of a probe that asks for the health; a healthy broker answers in milliseconds.
BROKER_WITHIN_S = 5.0


def register(app: typer.Typer) -> None:
    """Adds this module's commands."""
    app.command()(status)
    app.command()(health)


def status(
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait until no job is left that has not ended.")
    ] = False,
    timeout: Annotated[
        float | None,
        typer.Option(min=0, max=TIMEOUT_MAX_S, metavar="SECONDS", help="With --wait: at most so long."),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="The answer as JSON.")] = False,
) -> None:
    """Show the queue in numbers, its workers, and how many entities have a fresh vector.

    --wait shows it when the queue is drained. The exit code is 1 where it is not: the time is over, or it stands still
    until a person acts (halted, a worker or beat is missing), and one line says why. Failed jobs have ended.

    When the graph is away, the queue is shown without the coverage and the exit code is 75. It is 75 too when a
    database does not answer within 20 seconds.

    \b
    Examples:
      neo4j-queue status
      neo4j-queue status --json | jq '.pending + .processing'
      neo4j-queue enqueue --all && neo4j-queue status --wait --timeout 3600
    """
    if timeout is not None and not wait:
        raise typer.BadParameter("goes with --wait", param_hint="--timeout")
    driver.load()
    from neo4j_queue.queue.outlook import read
    from neo4j_queue.reconcile.status import answer

    with session.open_both() as both:
        session.in_time("the jobs database", lambda: session.refuse_old_schema(both.queue.database))
        still = _waited(both, timeout) if wait else None
        state = session.in_time("the jobs database", both.queue.status)
        outlook = session.in_time("the jobs database", lambda: read(both.queue, state))
        coverage = _coverage(both, state.unfinished)
        graph = both.graph.database if coverage is not None else None
        session.warn_of_other_workers(lambda: state.workers, both.settings, graph)
    if json:
        output.print_json(answer(state, outlook, coverage))
    else:
        _tell(state, outlook, coverage)
    if still is not None:
        session.refuse(f"not drained: {still}")
    if coverage is None:
        raise typer.Exit(TEMPORARY)


def _waited(both: session.Both, timeout_s: float | None) -> str | None:
    from neo4j_queue.cli.wait import Wait

    url = both.settings.celery_broker_url
    return Wait(both.queue, Asked(url, both.queue).missing_in_words, timeout_s).until_drained()


def _coverage(both: session.Both, unfinished: int) -> "KnownCoverage | None":
    from neo4j.exceptions import DriverError, Neo4jError

    from neo4j_queue.errors import TemporarilyUnavailable
    from neo4j_queue.errors.explain import explain, is_temporary
    from neo4j_queue.reconcile.coverage import known_coverage

    try:
        return session.in_time("the graph", lambda: known_coverage(both.graph, both.queue, unfinished))
    except TemporarilyUnavailable as error:
        session.warn(f"coverage is unknown: {error}")
        session.warn_of_defaults()
        return None
    except (Neo4jError, DriverError) as error:
        if not is_temporary(error):
            raise
        session.warn(f"the graph does not answer, so coverage is unknown: {explain(error)}")
        session.warn_of_defaults()
        return None


def _tell(state: "QueueStatus", outlook: "Outlook", coverage: "KnownCoverage | None") -> None:
    oldest = output.duration(state.oldest_pending_seconds)
    facts = {
        "halted": _halted(state),
        "paused": f"until {output.iso(state.paused_until)}: {state.pause_reason}"
        if state.paused_until
        else None,
        "request size": _request_size(state),
        "pending": f"{state.pending:,}" + (f" (oldest due for {oldest})" if oldest else ""),
        "delayed": f"{state.delayed:,}" + (" (waiting for their back-off)" if state.delayed else ""),
        "processing": f"{state.processing:,} ({state.started:,} started{_given_back(state)})",
        "completed": state.completed,
        "failed": f"{state.failed:,}" + (" (neo4j-queue dead stats)" if state.failed else ""),
        "waiting for": outlook.waiting_for,
        "done at": _done_at(state, outlook),
        "limits": [str(window) for window in outlook.windows] or None,
    }
    output.print_facts("Jobs", facts)
    if coverage is not None:
        print()
        output.print_facts("Entities", _entities(coverage))
    print()
    _tell_workers(state)


def _tell_workers(state: "QueueStatus") -> None:
    """Those that answered lately, and those that missed their last heartbeat with since when."""
    if not state.workers:
        print("No embed worker answered lately: one is missing, or a control worker and beat, who ask.")
    since = {w.name: f"silent since {output.iso(state.now - w.silent_ms)}" for w in state.silent}
    rows: list[list[object]] = []
    for w in state.workers:
        ago = f"{output.duration(w.seen_ms_ago / 1000)} ago"
        rows.append([w.name, w.slots, w.leases, since.pop(w.name, ago)])
    rows += [[w.name, None, w.leases, since[w.name]] for w in state.silent if w.name in since]
    if rows:
        output.print_table("Workers", ["name", "slots", "leases", "last answer"], rows)


def _halted(state: "QueueStatus") -> str | None:
    since = output.iso(state.halted_at)
    return f"since {since}: {state.halted_reason} (`neo4j-queue resume` ends it)" if state.halted else None


def _request_size(state: "QueueStatus") -> str | None:
    """The bound on requests that was found out, with why."""
    if state.found_inputs is None:
        return None
    why = (
        "the provider refused more: set EMBED_BATCH_SIZE"
        if state.inputs_refused
        else "more were not answered in time; it grows again"
    )
    return f"at most {state.found_inputs:,} texts ({why})"


def _done_at(state: "QueueStatus", outlook: "Outlook") -> str | None:
    """When the jobs will have ended, or why that is not known."""
    if not state.unfinished:
        return None
    if outlook.done_at is not None:
        left = output.duration(max(0, outlook.done_at - state.now) / 1000)
        return f"about {output.iso(outlook.done_at)} (in {left})"
    if outlook.waiting_for is not None:
        return "not known: that depends on what is waited for"
    return "not known: no batch has ended in the last minutes"


def _entities(coverage: "KnownCoverage") -> dict[str, object]:
    """What is not known is said so, with what makes it known."""
    if coverage.as_of is None:
        how = "not known before all texts were compared: neo4j-queue enqueue --all"
        return {"entities": coverage.entities, "fresh": how, "outbox": coverage.outbox}
    compared = output.iso(coverage.compared_at)
    facts: dict[str, object] = {
        "entities": coverage.entities,
        "fresh": coverage.fresh,
        "stale": coverage.stale,
        "missing": coverage.missing,
        "as of": output.iso(coverage.as_of),
        "outbox now": coverage.outbox,
        "texts compared": compared or "never; changes by other programs show after neo4j-queue enqueue --all",
    }
    if coverage.failed is not None:
        facts["failed then"] = coverage.failed
        facts["oldest stale then"] = output.iso(coverage.oldest_stale_at) or "none"
    return facts


def _given_back(state: "QueueStatus") -> str:
    """When the jobs of a killed worker come back: the first question after a kill."""
    if not state.processing or state.locked_seconds is None:
        return ""
    return f"; locks that no worker renews run out in about {output.duration(state.locked_seconds)}"


def health(
    json: Annotated[bool, typer.Option("--json", help="The answer as JSON.")] = False,
) -> None:
    """Say how embedding fares: HEALTHY, DEGRADED, CRITICAL or UNAVAILABLE, and why, with the command that helps.

    Judged by the last 100 verdicts of all workers, by what stands still (workers, beat, broker, a halt, a pause), by
    the indexes of the graph, by dead letters, and by whether both databases answer. Exit code 0 for HEALTHY, 75 when a
    database cannot be used, 1 for anything else.

    \b
    Examples:
      neo4j-queue health
      neo4j-queue health --json | jq '.causes[] | {code, command}'
    """
    from neo4j_queue.checks.health import answer
    from neo4j_queue.queue import EmbedQueue

    settings = session.load_settings()
    with session.open_databases(settings) as (graph, jobs):
        report = checkup(settings, EmbedQueue(jobs, settings), graph).report(session.ANSWER_WITHIN_S)
        workers = report.facts.status.workers if report.facts else ()
        session.warn_of_other_workers(lambda: workers, settings, None if report.graph_is_away else graph)
    if json:
        output.print_json(answer(report))
    if report.refusal is not None:
        raise report.refusal
    if not json:
        _tell_health(report)
    if report.health.state != "HEALTHY":
        raise typer.Exit(TEMPORARY if report.health.state == "UNAVAILABLE" else BAD)


def _tell_health(report: "Report") -> None:
    found, facts = report.health, report.facts
    rate = None if found.success_rate is None else f"{found.success_rate:.0%} of {found.verdicts} verdicts"
    workers = facts.status.workers if facts else ()
    shown = {
        "state": str(found.state),
        "why": output.in_lines("\n".join(map(_cause, found.causes))) if found.causes else None,
        "failures in a row": found.consecutive_failures,
        "success rate": rate,
        "last success": output.iso(found.last_success_at),
        "errors": _counted(found.error_patterns),
        "dead letters": _dead_letters(report),
        "workers": len(workers) or "no workers",
        "silent": [w.name for w in facts.status.silent] if facts else [],
    }
    output.print_facts("", {name: value for name, value in shown.items() if value != []})


def _cause(cause: "Reason") -> str:
    since = f" since {output.iso(cause.since)}" if cause.since else ""
    return f"{cause.sentence}{since} [{cause.code}] -> {cause.command}"


def _counted(patterns: "Mapping[str, int]") -> list[str]:
    return [f"{pattern} ({count})" for pattern, count in patterns.items()]


def _dead_letters(report: "Report") -> str | None:
    """Apart from the verdicts: a job that fails for its own text is none, and a verdict may be of a job that passed
    later."""
    facts = report.facts
    if facts is None or not facts.status.failed:
        return None
    return f"{facts.status.failed:,}, of late {', '.join(_counted(facts.dead_letters))}"


def checkup(settings: "Settings", queue: "EmbedQueue", graph: "Database") -> "Checkup":
    """Who tells the health, with the broker that the settings name."""
    from neo4j_queue.checks.health import Checkup

    return Checkup(settings, queue, graph, Asked(settings.celery_broker_url, queue))


class Asked:
    """The broker and the workers, as the health asks them."""

    def __init__(self, url: str, queue: "EmbedQueue") -> None:
        self._url = url
        self._queue = queue

    def trouble(self) -> str | None:
        """Why the broker cannot be used, or None."""
        return broker_trouble(self._url)

    def missing(self) -> "list[Reason] | None":
        """Who is missing; None if the workers could not be asked."""
        from tasks import presence

        there = presence.look(self._url, self._queue)
        return None if there is None else there.reasons()

    def missing_in_words(self) -> list[str] | None:
        """The same in sentences."""
        missing = self.missing()
        return None if missing is None else [each.sentence for each in missing]


def broker_trouble(url: str) -> str | None:
    """Why the broker cannot be used, or None."""
    from neo4j_queue.errors import SettingsError, TemporarilyUnavailable
    from tasks import broker

    try:
        session.in_time("the broker", lambda: broker.ping(url), BROKER_WITHIN_S)
    except (TemporarilyUnavailable, SettingsError) as error:
        return str(error)
    return None

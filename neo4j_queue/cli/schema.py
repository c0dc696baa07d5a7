"""`init` and `doctor`: set up the databases, and find out what is wrong."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from neo4j_queue.cli import output, session

if TYPE_CHECKING:
    from neo4j_queue.checks.findings import Finding
    from neo4j_queue.cli.triggers import Answer
    from neo4j_queue.database import Database
    from neo4j_queue.schema.indexes import Report
    from neo4j_queue.settings import Settings

BAD = 1
CONFIGURATION = 78


def register(app: typer.Typer) -> None:
    """Adds this module's commands."""
    app.command()(init)
    app.command()(doctor)


def init(
    check: Annotated[bool, typer.Option("--check", help="Only look; change nothing.")] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Put these settings in force although jobs of others wait.")
    ] = False,
    yes: Annotated[
        bool,
        typer.Option("--yes", help="Take names that look like mistakes; remake the full-text index."),
    ] = False,
    triggers: Annotated[
        bool | None,
        typer.Option("--triggers/--no-triggers", help="Mark changes by any program: by an APOC trigger."),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="The answer as JSON.")] = False,
) -> None:
    """Prepare both databases: constraints, indexes, control node.

    Creates what is missing; safe to run again, and from several machines at once. Waits until every index is online.
    In the graph this includes a uniqueness constraint on EMBED_ENTITY_KEY of EMBED_ENTITY_LABEL: from then on Neo4j
    refuses a second node with the same key. It drops nothing, except with --yes its own full-text index, to make it
    anew when the text properties changed. With --check it changes nothing, and exit code 78 says that something is
    missing. A label or property that no node has, but another one almost, is refused without --yes.

    At its end it puts these settings in force (graph, label, key, text, model): workers, beat and callers with others
    then do no work. Where jobs wait that could not be done under the new ones, it refuses; --force gives them up.

    --triggers puts an APOC trigger onto the graph: what any program changes of an entity's text, key or soft-delete
    property is found within seconds. The server must allow it (apoc.trigger.enabled=true in apoc.conf), else exit code
    78. --no-triggers takes it away. Without either, what is there stays, and a note says if it does not fit.

    \b
    Examples:
      neo4j-queue init
      neo4j-queue init --triggers
      neo4j-queue init --check && celery -A tasks worker
    """
    from neo4j_queue import schema
    from neo4j_queue.checks import boot, fingerprint, in_force
    from neo4j_queue.checks.graph_names import strangers
    from neo4j_queue.cli.triggers import settle
    from neo4j_queue.errors import SettingsError

    settings = session.load_settings()
    if problems := boot.model_problems(settings):
        raise SettingsError(problems)
    with session.open_databases(settings) as (graph, jobs):
        boot.ping(graph, "NEO4J")
        boot.ping(jobs, "EMBED_JOB_DATABASE")
        if boot.same_store(graph, jobs):
            raise SettingsError(boot.problems(graph, jobs, settings))
        if check:
            reports = [schema.check_jobs(jobs), schema.check_graph(graph, settings)]
        else:
            mark = fingerprint.fingerprint(settings, graph)
            _refuse_mistakes(graph, settings, yes=yes)
            _refuse_giving_up(jobs, mark, force=force)
            with output.progress("building indexes (%)") as advance:

                def built(percents: Mapping[str, float]) -> None:
                    advance(round(min(percents.values())), 100)

                reports = [
                    schema.migrate_jobs(jobs, progress=built),
                    schema.migrate_graph(graph, settings, progress=built, remake=yes),
                ]
            if all(report.ok for report in reports):
                before = in_force.read(jobs)
                in_force.put(jobs, mark)
                _tell_in_force(settings, graph, jobs, before, mark)
        answer = None
        # Nothing sweeps what a trigger marks in a graph that is not ready.
        if check or all(report.ok for report in reports):
            answer = settle(graph, jobs, settings, wanted=triggers, check=check)
        for line in strangers(graph, settings):
            session.warn(line)
    ok = all(report.ok for report in reports) and not (answer and answer.problems)
    if json:
        databases = [asdict(report) for report in reports]
        output.print_json({"ok": ok, "databases": databases, "trigger": answer and asdict(answer)})
    else:
        _tell(reports, check)
        _tell_trigger(answer)
    if not ok:
        raise typer.Exit(CONFIGURATION)


def _tell_in_force(
    settings: "Settings", graph: "Database", jobs: "Database", before: str | None, mark: str
) -> None:
    """What a change of the settings in force means for what runs already."""
    from neo4j_queue.checks.fingerprint import differing
    from neo4j_queue.queue import EmbedQueue

    if parts := [] if before is None else differing(before, mark):
        session.warn(
            f"these settings are in force now, with another {', '.join(parts)} than before: workers and beat that "
            "run with those do no work until they are restarted"
        )
        session.warn_of_other_workers(EmbedQueue(jobs, settings).census.workers, settings, graph)


def _refuse_giving_up(jobs: "Database", mark: str, *, force: bool) -> None:
    from neo4j_queue.checks import in_force
    from neo4j_queue.errors import SettingsError
    from neo4j_queue.schema import check_jobs

    # Before its first `init` a jobs database has no settings in force, and no index to look for jobs by.
    if check_jobs(jobs).version is None:
        return
    line = in_force.replacing(jobs, mark)
    if line is None:
        return
    if not force:
        raise SettingsError([line])
    session.warn("jobs that wait under the settings before are given up: they end without a vector")


def _refuse_mistakes(graph: "Database", settings: "Settings", *, yes: bool) -> None:
    """Refuses names that look like mistakes: they would make a constraint and indexes over what no node has."""
    from neo4j_queue.checks.graph_names import mistakes
    from neo4j_queue.errors import SettingsError

    if not yes and (lines := mistakes(graph, settings)):
        raise SettingsError([f"{line} (init --yes takes it as it is)" for line in lines])


def _tell(reports: "list[Report]", check: bool) -> None:
    for report in reports:
        state = "ready" if report.ok else "not ready"
        version = f" (schema version {report.version})" if report.version is not None else ""
        output.print_line(f"{report.database}: {state}{version}")
        for name in report.created:
            output.print_line(f"  created {name}")
        if report.ok and not report.created and not check:
            print("  nothing to do")
        for note in report.notes:
            output.print_line(f"  note: {note}")
        for problem in report.problems:
            output.print_line(f"  problem: {problem}")


def _tell_trigger(answer: "Answer | None") -> None:
    if answer is None or not (answer.notes or answer.problems):
        return
    output.print_line(f"trigger: {answer.state}")
    for note in answer.notes:
        output.print_line(f"  note: {note}")
    for problem in answer.problems:
        output.print_line(f"  problem: {problem}")


def doctor(
    json: Annotated[bool, typer.Option("--json", help="The answer as JSON.")] = False,
) -> None:
    """Look at every part and say what is wrong and what to do about it.

    Looks at settings, provider, both databases (reachable, version, edition, clocks, the right way round), schema
    and indexes, APOC, queue, workers and broker. Exit code 0 when nothing is bad, 1 otherwise (78: settings).

    \b
    Examples:
      neo4j-queue doctor
      neo4j-queue doctor --json | jq '.findings[] | select(.grade != "ok")'
    """
    from neo4j_queue.checks.doctor import examine
    from neo4j_queue.checks.findings import Finding, Grade
    from neo4j_queue.errors import SettingsError
    from tasks import broker, presence

    try:
        settings = session.load_settings(warn_of_names=False)  # they are findings
    except SettingsError as error:
        findings = [Finding("settings", Grade.BAD, problem) for problem in error.problems]
        _diagnose(findings, json)
        raise typer.Exit(CONFIGURATION) from None
    url = settings.celery_broker_url
    findings = examine(settings, broker=lambda: [broker.examine(url), *presence.examine(settings)])
    _diagnose(findings, json)
    if any(finding.grade is Grade.BAD for finding in findings):
        raise typer.Exit(BAD)


def _diagnose(findings: "list[Finding]", json: bool) -> None:
    if json:
        bad = any(finding.grade == "bad" for finding in findings)
        output.print_json({"ok": not bad, "findings": [asdict(finding) for finding in findings]})
        return
    marks = {"ok": "ok", "warning": "!", "bad": "BAD"}
    rows = [
        [
            marks[finding.grade],
            finding.subject,
            output.in_lines(finding.detail + (f"\n-> {finding.advice}" if finding.advice else "")),
        ]
        for finding in findings
    ]
    output.print_table("", ["", "what", "finding"], rows)

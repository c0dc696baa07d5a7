"""`enqueue` and `repair`: ask for fresh vectors."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from neo4j_queue.cli import cost, output, session

if TYPE_CHECKING:
    from neo4j_queue.graph import EntityGraph
    from neo4j_queue.graph.entities import EntityText
    from neo4j_queue.queue import EmbedQueue
    from neo4j_queue.reconcile.sweep import Scope, Sweep

BAD = 1
# As in `neo4j_queue.reconcile.repair`, which is too slow to import for a help text.
LIMIT, LIMIT_MAX = 10, 1_000

DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Only say what it would cost: tokens, requests, minutes, money.")
]


Force = Annotated[
    bool, typer.Option("--force", help="Queue although other settings are in force: their workers decide.")
]


def register(app: typer.Typer) -> None:
    """Adds this module's commands."""
    app.command()(enqueue)
    app.command()(repair)


def enqueue(
    names: Annotated[list[str] | None, typer.Argument(metavar="NAME", help="Entities by their key.")] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Every entity whose vector is missing or stale.")
    ] = False,
    missing: Annotated[
        bool, typer.Option("--missing", help="Every entity that has no vector at all.")
    ] = False,
    dry_run: DryRun = False,
    force: Force = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before --all and --missing.")] = False,
    json: Annotated[bool, typer.Option("--json", help="The answer as JSON.")] = False,
) -> None:
    """Queue a job for entities: those named, all without a fresh vector, or all without any.

    This is how a graph that other programs have written gets its vectors. Entities whose vector is fresh cost
    nothing. Jobs that failed for good are left alone by --all and --missing; `dead replay` is for them. At a terminal
    it asks before --all and --missing, for they may cost; a script is not asked.

    \b
    Examples:
      neo4j-queue enqueue --all --dry-run
      neo4j-queue enqueue --all
      neo4j-queue enqueue "Ada Lovelace" "Charles Babbage"
    """
    if sum((bool(names), everything, missing)) != 1:
        raise typer.BadParameter("name some entities, or give one of --all and --missing")
    _refuse_blank(names or ())
    from neo4j_queue.reconcile.sweep import Scope, pages, sweep

    scope = Scope.ALL if everything else Scope.MISSING
    with session.open_both() as both:
        graph, queue = both.graph, both.queue
        _warn_of_strangers(both)
        if not dry_run:
            _refuse_before_init(both)
            session.refuse_other_settings(both, force=force)
        if names:
            _named(both, names, dry_run=dry_run, json=json)
            return
        if dry_run:
            entities = (lambda: graph.known().nodes) if everything else None
            cost.dry_run(both, pages(graph, scope), leave_failed=True, total=entities, json=json)
            _tell_left_out(graph, graph.without_key())
            return
        if session.at_terminal():
            session.confirm(lambda: _question(graph, scope), yes=yes)
        nudge = session.nudger()
        with output.progress("entities") as advance:
            total = graph.known().nodes if everything else None

            def seen(sweep: "Sweep") -> None:
                advance(sweep.seen, total)
                nudge()

            done = sweep(graph, queue, scope, progress=seen)
        if done.seen:
            session.tell_unheard(nudge)
    if json:
        output.print_json({**asdict(done), "failed": done.failed})
    else:
        failed = f", {done.failed:,} failed before (`neo4j-queue retry` is for them)" if done.failed else ""
        refused = f", {done.refused:,} left out (the log names them)" if done.refused else ""
        print(
            f"{output.counted(done.seen, 'entity', 'entities')} looked at: "
            f"{done.queued:,} queued, {done.standing:,} queued before, "
            f"{done.fresh:,} fresh{failed}{refused}."
        )
    _tell_left_out(graph, done.without_key)


def _question(graph: "EntityGraph", scope: "Scope") -> str:
    which = "without a fresh vector" if scope == "all" else "without a vector"
    known = output.counted(graph.known().nodes, "entity", "entities")
    return (
        f"{known} of :{graph.label} are looked at, those {which} are paid for (--dry-run: how much). Go on?"
    )


def _warn_of_strangers(both: session.Both) -> None:
    from neo4j_queue.checks.graph_names import strangers

    for line in strangers(both.graph.database, both.settings, of_nothing=True):
        session.warn(line)


def _refuse_before_init(both: session.Both) -> None:
    from neo4j_queue.errors import SettingsError
    from neo4j_queue.schema import unprepared

    problems = unprepared(both.graph.database, both.queue.database, both.settings)
    if problems:
        raise SettingsError(problems)


def _tell_left_out(graph: "EntityGraph", count: int) -> None:
    from neo4j_queue.graph.keys import in_short

    if count:
        session.warn(f"{in_short(count, graph.label, graph.key)} (neo4j-queue doctor: what to do)")


def _refuse_blank(names: Sequence[str]) -> None:
    if any(not name.strip() for name in names):
        raise typer.BadParameter("is blank: entities without a key are left out", param_hint="NAME")


def _named(both: session.Both, names: Sequence[str], *, dry_run: bool, json: bool) -> None:
    texts = {text.uid: text for text in both.graph.read_texts(names) if not text.deleted}
    if dry_run:
        cost.dry_run(both, [list(texts.values())], leave_failed=False, json=json)
    else:
        _enqueue_named(both.graph, both.queue, texts.values(), json=json)
    unknown = [name for name in dict.fromkeys(names) if name not in texts]
    if unknown:
        session.refuse("; ".join(f"Entity not found: {name}" for name in unknown))


def _enqueue_named(
    graph: "EntityGraph", queue: "EmbedQueue", texts: Iterable["EntityText"], *, json: bool
) -> None:
    results = queue.enqueue([replace(text.request(graph.model), force=True) for text in texts])
    if results:
        session.nudge()
    if json:
        output.print_json(
            [{"entity": r.entity_uid, "job_id": r.id, "outcome": str(r.outcome)} for r in results]
        )
    else:
        for result in results:
            output.print_line(f"{result.entity_uid}: {result.outcome}, job {result.id}")


def repair(
    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME", help="One entity; without it, entities without a vector."),
    ] = None,
    limit: Annotated[
        int, typer.Option(min=1, max=LIMIT_MAX, help="At most this many entities (without NAME).")
    ] = LIMIT,
    dry_run: DryRun = False,
    force: Force = False,
    json: Annotated[bool, typer.Option("--json", help="The answer as JSON.")] = False,
) -> None:
    """Queue one entity again at the highest priority, or some entities that have no vector.

    The same tool as the task `tasks.repair.force_generate_embedding`, with the same answer. A limit that the task
    would quietly replace is refused here.

    \b
    Examples:
      neo4j-queue repair "Ada Lovelace"
      neo4j-queue repair --limit 100 --dry-run
      neo4j-queue repair --limit 100
    """
    from neo4j_queue.reconcile.repair import force_generate_embedding, selected

    _refuse_blank(() if name is None else (name,))
    with session.open_both() as both:
        _warn_of_strangers(both)
        if dry_run:
            # Entities of a page have no job, or one that ended well; a named one may have any.
            page = selected(both.graph, both.queue, name, limit)
            cost.dry_run(both, [page], leave_failed=False, json=json)
            _tell_missed(both.graph, name, len(page), limit)
            return
        _refuse_before_init(both)
        session.refuse_other_settings(both, force=force)
        answer = force_generate_embedding(both.graph, both.queue, name, limit)
        _tell_missed(both.graph, name, answer.get("discovered", 0), limit)
    session.nudge()
    if json:
        output.print_json(answer)
    elif answer["mode"] == "specific":
        output.print_line(f"{answer['entity']}: {answer['did']}, job {answer['job_id']}")
    else:
        for job in answer["jobs"]:
            output.print_line(f"{job['entity']}: {job.get('error') or _became(job)}")
        print(f"{answer['discovered']:,} without a vector found, {answer['newly_scheduled']:,} queued now.")
    if not answer["success"]:
        raise typer.Exit(BAD)


def _became(job: Mapping[str, Any]) -> str:
    return f"{job['outcome']}, job {job['job_id']}"


def _tell_missed(graph: "EntityGraph", name: str | None, found: int, limit: int) -> None:
    """Tells of entities without a key, unless the page is full: then the graph was not searched to its end."""
    if not name and found < limit:
        _tell_left_out(graph, graph.without_key())

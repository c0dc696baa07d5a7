"""`dead replay`, `dead purge` and `retry`: dead letters again, or away."""

from typing import TYPE_CHECKING, Annotated

import typer

from neo4j_queue.cli import cost, output, selection, session

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from neo4j_queue.queue import EmbedQueue
    from neo4j_queue.queue.failed_jobs import Selection
    from neo4j_queue.queue.retry_failed import Retried

# Dead letters of one entity that a name means: an entity has one for each of its texts that failed.
OF_ONE_ENTITY = 1_000

Names = Annotated[
    list[str] | None, typer.Argument(metavar="ID", help="These jobs, or all of the entities of these keys.")
]
Everything = Annotated[bool, typer.Option("--all", help="All dead letters.")]
Limit = Annotated[int | None, typer.Option(min=1, help="At most this many.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only say how many, and what they would cost.")]
AsJson = Annotated[bool, typer.Option("--json", help="The answer as JSON.")]


def replay(
    names: Names = None,
    everything: Everything = False,
    category: selection.OfCategory = None,
    reason: selection.OfReason = None,
    status: selection.OfStatus = None,
    error_type: selection.OfType = None,
    since: selection.Since = None,
    until: selection.Until = None,
    quota: selection.OfQuota = False,
    limit: Limit = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    json: AsJson = False,
) -> None:
    """Queue dead letters again, as if they were new: those named, those that the options mean, or all.

    It asks before it queues more than the ones that you name; without a terminal --yes is needed. A job whose text has
    changed since ends as superseded, and one for the new text is queued. --dry-run reads the graph and writes nothing.

    \b
    Examples:
      neo4j-queue dead replay "Ada Lovelace"
      neo4j-queue dead replay --status 503 --since 24h --dry-run
      neo4j-queue dead replay --reason max_retries_exceeded --limit 1000 --yes
    """
    wanted = _meant(
        names,
        everything,
        selection.selection(category, reason, status, error_type, since, until, quota=quota),
    )
    if dry_run:
        _cost(names, wanted, limit, json=json)
        return
    with session.open_queue() as queue:
        ids = _ids(queue, names)
        if ids is None:
            session.confirm(lambda: f"{_size(queue, wanted, limit)}. Queue them again?", yes=yes)
        done = queue.dead.replay(wanted, limit, ids)
    _tell(done, json=json)


def purge(
    names: Names = None,
    everything: Everything = False,
    category: selection.OfCategory = None,
    reason: selection.OfReason = None,
    status: selection.OfStatus = None,
    error_type: selection.OfType = None,
    since: selection.Since = None,
    until: selection.Until = None,
    quota: selection.OfQuota = False,
    limit: Limit = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say how many.")] = False,
    yes: Yes = False,
    json: AsJson = False,
) -> None:
    """Remove dead letters before their retention is over: those named, those that the options mean, or all.

    Each leaves a slim archive record for EMBED_JOB_ARCHIVE_DAYS (0: none). The queue forgets that their entities
    failed: the next sweep of entities without a vector queues them again. It asks; without a terminal --yes is needed.

    \b
    Examples:
      neo4j-queue dead purge --status 400 --until 7d --dry-run
      neo4j-queue dead purge --status 400 --until 7d --yes
    """
    wanted = _meant(
        names,
        everything,
        selection.selection(category, reason, status, error_type, since, until, quota=quota),
    )
    with session.open_queue() as queue:
        ids = _ids(queue, names)
        if dry_run:
            count = _count(queue, wanted, limit, ids)
            if json:
                output.print_json({"dry_run": True, "would_purge": count})
            else:
                print(f"Would remove {output.counted(count, 'dead letter')}.")
            return
        kept = queue.settings.embed_job_archive_days
        becomes = f"each leaves an archive record for {kept} days" if kept else "nothing is left of them"
        session.confirm(lambda: f"{_size(queue, wanted, limit, ids)}. Remove them ({becomes})?", yes=yes)
        done = queue.dead.purge(wanted, limit, ids)
    if json:
        output.print_json({"purged": done.removed, "archived": done.archived})
    else:
        archived = f", {output.counted(done.archived, 'archive record')} left" if done.archived else ""
        print(f"{output.counted(done.removed, 'dead letter')} removed{archived}.")


def retry(
    ids: Annotated[list[str] | None, typer.Argument(metavar="ID", help="Only these jobs.")] = None,
    category: selection.OfCategory = None,
    reason: selection.OfReason = None,
    status: selection.OfStatus = None,
    limit: Limit = None,
    json: AsJson = False,
) -> None:
    """Queue failed jobs again, as if they were new: all of them, or those that the options name.

    It does not ask; `dead replay` does, has more options, and says before what it would cost.

    \b
    Examples:
      neo4j-queue retry
      neo4j-queue retry --category TRANSIENT --limit 100
      neo4j-queue retry --status 503
    """
    with session.open_queue() as queue:
        done = queue.dead.replay(selection.selection(category, reason, status), limit, ids or None)
    _tell(done, json=json)
    if ids and done.jobs + done.left < len(set(ids)):
        session.refuse(f"{len(set(ids)) - done.jobs - done.left} of the jobs named are not failed jobs")


def _meant(names: "Sequence[str] | None", everything: bool, wanted: "Selection") -> "Selection":
    """The selection, if exactly one way of selecting was used."""
    if sum((bool(names), everything, wanted.narrow)) != 1:
        raise typer.BadParameter("name some dead letters, select by options such as --status, or give --all")
    return wanted


def _ids(queue: "EmbedQueue", names: "Sequence[str] | None") -> list[str] | None:
    """The dead letters that are named; ends the command where one is not."""
    if not names:
        return None
    found = {name: [job["id"] for job in queue.dead.named(name, OF_ONE_ENTITY)] for name in names}
    unknown = [name for name, ids in found.items() if not ids]
    if unknown:
        session.refuse(f"no dead letter of this id or entity: {', '.join(unknown)}")
    return [job_id for ids in found.values() for job_id in ids]


def _count(queue: "EmbedQueue", wanted: "Selection", limit: int | None, ids: "Sequence[str] | None") -> int:
    """How many are meant: of `ids`, where they are named."""
    count = len(ids) if ids is not None else queue.dead.stats(wanted).jobs
    return count if limit is None else min(count, limit)


def _size(
    queue: "EmbedQueue", wanted: "Selection", limit: int | None, ids: "Sequence[str] | None" = None
) -> str:
    """How many are meant, for the question whether to go on."""
    if ids is not None:
        return output.counted(len(ids), "dead letter")
    found = queue.dead.stats(wanted)
    tokens = f", about {found.est_tokens:,} model tokens"
    least = f" (at most {limit:,} of them)" if limit is not None and limit < found.jobs else ""
    return f"{output.counted(found.jobs, 'dead letter')}{least}{'' if least else tokens}"


def _cost(names: "Sequence[str] | None", wanted: "Selection", limit: int | None, *, json: bool) -> None:
    from neo4j_queue.reconcile.dead_texts import entities_of

    with session.open_both() as both:
        session.refuse_old_schema(both.queue.database)
        ids = _ids(both.queue, names)
        count = _count(both.queue, wanted, limit, ids)
        jobs = both.queue.dead.walk(wanted, limit) if ids is None else iter(both.queue.dead.of(ids[:count]))
        more: Mapping[str, object] = {"would_replay": count}
        cost.dry_run(
            both, entities_of(both.graph, jobs), leave_failed=False, total=lambda: count, more=more, json=json
        )


def _tell(done: "Retried", *, json: bool) -> None:
    if done.jobs:
        session.nudge()
    if json:
        output.print_json({"retried": done.jobs, "left": done.left})
    else:
        print(f"{output.counted(done.jobs, 'failed job')} queued again.")
    if done.left:
        session.warn(
            f"{output.counted(done.left, 'failed job')} left as before: made under settings with another graph, label "
            "or key than those in force, whose workers would end them without a vector; put those settings in force "
            "(`neo4j-queue init`) and retry then"
        )

"""`release`: take running jobs back."""

from typing import TYPE_CHECKING, Annotated

import typer

from neo4j_queue.cli import output, session

if TYPE_CHECKING:
    from collections.abc import Collection

    from neo4j_queue.queue import EmbedQueue
    from neo4j_queue.queue.leases import HeldJob
    from neo4j_queue.settings import Settings

# Jobs that a dry run lists: enough to recognize them; a batch may have two thousand.
SHOWN = 20


def register(app: typer.Typer) -> None:
    """Adds this module's command."""
    app.command()(release)


def release(
    ids: Annotated[list[str] | None, typer.Argument(metavar="ID", help="These jobs.")] = None,
    worker: Annotated[
        str | None, typer.Option(metavar="NAME", help="All jobs that this worker runs, such as embed@host.")
    ] = None,
    orphaned: Annotated[
        bool, typer.Option("--orphaned", help="All started jobs that no living worker runs.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show which jobs it would take back.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="The answer as JSON.")] = False,
) -> None:
    """Take running jobs back from the workers that hold them; they run again at once, and no attempt is counted.

    A worker whose lease was taken notices it and writes nothing. --orphaned asks all workers what they run: a lease is
    an orphan if its worker does not answer, or answers without it. So a worker that is cut off from the broker counts
    as dead, and its texts may be paid for twice. Exit code 75 when the broker does not answer.

    \b
    Examples:
      neo4j-queue release --orphaned --dry-run
      neo4j-queue release --worker embed@host7
      neo4j-queue release 0b1f4ab8-0c0c-4f0e-9a59-5f9d0a1b2c3d
    """
    if sum((bool(ids), worker is not None, orphaned)) != 1:
        raise typer.BadParameter("name some jobs, or give one of --worker and --orphaned")
    from neo4j_queue.queue import EmbedQueue, listing

    with session.open_jobs() as (jobs, settings):
        queue = EmbedQueue(jobs, settings)
        held = session.in_time("the jobs database", lambda: listing.held(jobs))
        found = _orphans(settings, held) if orphaned else _named(held, worker, ids or ())
        if dry_run:
            _tell(found, json=json)
        else:
            _release(queue, ids, found, json=json)
    if worker is not None and not found:
        names = sorted({job.worker for job in held if job.worker})
        others = f"; workers with running jobs: {', '.join(names)}" if names else ""
        session.refuse(f"worker {worker} runs no job{others}")
    idle = sorted(set(ids or ()) - {job.id for job in found})
    if idle:
        session.refuse(f"not running, so not released: {', '.join(idle)}")


def _release(queue: "EmbedQueue", ids: list[str] | None, found: "list[HeldJob]", *, json: bool) -> None:
    # Named jobs are taken from any holder; others only from the lease that was seen, for they may be leased again.
    tokens = None if ids else {job.token for job in found}
    released = queue.release_jobs([job.id for job in found], tokens)
    if released:
        session.nudge()
    if json:
        output.print_json({"released": released})
    else:
        print(f"{output.counted(len(released), 'job')} released.")


def _named(held: "list[HeldJob]", worker: str | None, ids: "Collection[str]") -> "list[HeldJob]":
    return [job for job in held if (job.id in ids if worker is None else job.worker == worker)]


def _orphans(settings: "Settings", held: "list[HeldJob]") -> "list[HeldJob]":
    """The started jobs whose worker is dead or runs something else; `held` was read before the workers were asked."""
    from tasks import executing

    answers = executing.ask(settings.celery_broker_url)
    return [job for job in held if executing.is_orphan(job, answers)]


def _tell(found: "list[HeldJob]", *, json: bool) -> None:
    if json:
        jobs = [
            {"id": j.id, "entity": j.entity_uid, "worker": j.worker, "since": output.iso(j.since)}
            for j in found
        ]
        output.print_json({"dry_run": True, "would_release": jobs})
        return
    print(f"Would release {output.counted(len(found), 'job')}.")
    if not found:
        return
    counts: dict[str | None, list[HeldJob]] = {}
    for job in found:
        counts.setdefault(job.worker, []).append(job)
    rows = [[worker, len(jobs), output.iso(jobs[0].since)] for worker, jobs in counts.items()]
    output.print_table("", ["worker", "jobs", "the first since"], rows)
    rows = [[j.id, j.entity_uid, j.worker, output.iso(j.since)] for j in found[:SHOWN]]
    output.print_table("", ["id", "entity", "worker", "running since"], rows)
    if len(found) > SHOWN:
        print(f"... and {len(found) - SHOWN:,} more (all of them: --json)")

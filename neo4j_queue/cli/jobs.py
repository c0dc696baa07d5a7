"""`jobs list`, `jobs show`: look at jobs."""

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from neo4j_queue.cli import attempts, driver, output, selection, session

if TYPE_CHECKING:
    from collections.abc import Mapping

# A list is held in memory as a whole before it is printed.
LIST_MAX = 100_000
# Properties of a job that are times (epoch ms), shown as such to people.
TIMES = frozenset(
    {"created_at", "available_at", "leased_at", "started_at", "processed_at", "lock_until", "crashed_at"}
)


class JobStatus(StrEnum):
    """The values of `--status`."""

    PENDING = "pending"
    PROCESSING = "processing"
    COMPLETED = "completed"
    FAILED = "failed"


def register(app: typer.Typer) -> None:
    """Adds this module's commands."""
    jobs = typer.Typer(no_args_is_help=True, help="List jobs, or show one with everything known about it.")
    jobs.command("list")(list_jobs)
    jobs.command("show")(show)
    app.add_typer(jobs, name="jobs")


def list_jobs(
    status: Annotated[
        JobStatus | None, typer.Option(case_sensitive=False, help="Only jobs in this state.")
    ] = None,
    entity: Annotated[str | None, typer.Option(help="Only jobs of this entity.")] = None,
    since: Annotated[
        str | None,
        typer.Option(
            metavar="TIME", help="Only jobs of this time or later: 2h, 30m, 3d (ago), or 2026-07-01T12:00Z."
        ),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=LIST_MAX, help="At most this many.")] = 20,
    json: Annotated[bool, typer.Option("--json", help="The answer as JSON.")] = False,
) -> None:
    """List jobs, newest first: by when they ended, or are or were due; those of an entity by when they were created.

    A running job has its owner (the worker, or who leased it) and since when; of any other it is the worker of the last
    verdict. --since looks at the time by which the jobs are listed.

    \b
    Examples:
      neo4j-queue jobs list --status failed --since 24h
      neo4j-queue jobs list --entity "Ada Lovelace" --json | jq '.[].outcome'
    """
    driver.load()
    from neo4j_queue.queue import listing

    asked: dict[str, Any] = {
        "status": _plain(status),
        "entity_uid": entity,
        "limit": limit,
        "since": 0 if since is None else selection.epoch_ms(since, "--since"),
    }
    with session.open_queue() as queue:
        found = session.in_time("the jobs database", lambda: queue.jobs(**asked))
        workers = {job.id: job.worker for job in listing.held(queue.database)} if not json else {}
    if json:
        output.print_json(found)
        return
    if not found:
        print("No such jobs.")
        return
    rows = [
        [
            job["id"],
            job["entity_uid"],
            job["status"],
            output.iso(job.get("created_at") if entity is not None else listing.time_of(job)),
            f"{job.get('attempts', 0)}/{job.get('max_attempts', '?')}",
            workers.get(job["id"]) or job.get("lock_owner") or job.get("worker"),
            output.iso(job.get("started_at") or job.get("leased_at"))
            if job["status"] == "processing"
            else None,
            job.get("outcome") or job.get("failure_reason"),
            (job.get("error") or "")[:80],
        ]
        for job in found
    ]
    when = "created" if entity is not None else "ended or due"
    output.print_table(
        "", ["id", "entity", "status", when, "attempts", "owner", "running since", "outcome", "error"], rows
    )


def show(
    job_id: Annotated[str, typer.Argument(metavar="ID")],
    json: Annotated[bool, typer.Option("--json", help="The answer as JSON.")] = False,
) -> None:
    """Show everything known about one job: its last error with its stack, and the attempts before it.

    \b
    Examples:
      neo4j-queue jobs show 0b1f4ab8-0c0c-4f0e-9a59-5f9d0a1b2c3d
    """
    with session.open_queue() as queue:
        job = session.in_time("the jobs database", lambda: queue.job(job_id))
    if job is None:
        session.refuse(f"job not found: {job_id}")
    if json:
        output.print_json(job)
    else:
        output.print_facts("", _readable(job))
        attempts.tell(attempts.TITLE, job.get("history", ()))


def _plain(word: StrEnum | None) -> str | None:
    """The value as plain text: the driver does not take members of an enum."""
    return None if word is None else word.value


def _readable(job: "Mapping[str, Any]") -> dict[str, Any]:
    """The job for people: times in ISO 8601, the long stack last."""
    own = [name for name in job if name != "history"]
    names = sorted(own, key=lambda name: (name == "error_stack", name != "id", name))
    facts: dict[str, Any] = {name: output.iso(job[name]) if name in TIMES else job[name] for name in names}
    if facts.get("error_stack"):
        facts["error_stack"] = output.in_lines(facts["error_stack"])
    return facts

"""`jobs list`, `jobs show`, `retry`: look at jobs, and queue failed ones again."""

import re
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from neo4j_queue.cli import attempts, output, session

if TYPE_CHECKING:
    from collections.abc import Mapping

BAD = 1
# A list is held in memory as a whole before it is printed.
LIST_MAX = 100_000
HTTP_MIN, HTTP_MAX = 100, 599
# So long ago: a number and a unit.
AGO = re.compile(r"(?P<count>\d{1,9})(?P<unit>[smhd])")
UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
# Properties of a job that are times (epoch ms), shown as such to people.
TIMES = frozenset({"created_at", "available_at", "leased_at", "started_at", "processed_at", "lock_until"})


class JobStatus(StrEnum):
    """The values of `--status`."""

    PENDING = "pending"
    PROCESSING = "processing"
    COMPLETED = "completed"
    FAILED = "failed"


class Category(StrEnum):
    """The values of `--category`."""

    TRANSIENT = "TRANSIENT"
    PERMANENT = "PERMANENT"
    CRITICAL = "CRITICAL"


class Reason(StrEnum):
    """The values of `--reason`."""

    PERMANENT_ERROR = "permanent_error"
    MAX_RETRIES_EXCEEDED = "max_retries_exceeded"
    WORKER_LOST = "worker_lost"


def _http_status(text: str) -> int:
    """The number of `--status`; a name is refused with the option that takes it."""
    if text.isdecimal() and HTTP_MIN <= int(text) <= HTTP_MAX:
        return int(text)
    categories, reasons = ", ".join(Category), ", ".join(Reason)
    raise typer.BadParameter(
        f"{text!r} is not an HTTP status ({HTTP_MIN} to {HTTP_MAX}). "
        f"By name: --category {categories}; --reason {reasons}."
    )


def register(app: typer.Typer) -> None:
    """Adds this module's commands."""
    jobs = typer.Typer(no_args_is_help=True, help="List jobs, or show one with everything known about it.")
    jobs.command("list")(list_jobs)
    jobs.command("show")(show)
    app.add_typer(jobs, name="jobs")
    app.command()(retry)


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
    from neo4j_queue.queue import listing

    asked: dict[str, Any] = {
        "status": _plain(status),
        "entity_uid": entity,
        "limit": limit,
        "since": 0 if since is None else epoch_ms(since, "--since"),
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


def epoch_ms(text: str, option: str) -> int:
    """The epoch ms that an option means: so long ago, or a time in ISO 8601 (UTC where it names no zone)."""
    ago = AGO.fullmatch(text)
    try:
        if ago is None:
            at = datetime.fromisoformat(text)
            return max(0, round((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000))
        at = datetime.now(UTC) - timedelta(**{UNITS[ago["unit"]]: int(ago["count"])})
    except (ValueError, OverflowError):
        expected = "a time such as 2h, 30m or 3d (ago), or 2026-07-01T12:00Z"
        raise typer.BadParameter(f"{text!r} is not {expected}.", param_hint=option) from None
    return max(0, round(at.timestamp() * 1000))


def _readable(job: "Mapping[str, Any]") -> dict[str, Any]:
    """The job for people: times in ISO 8601, the long stack last."""
    own = [name for name in job if name != "history"]
    names = sorted(own, key=lambda name: (name == "error_stack", name != "id", name))
    facts: dict[str, Any] = {name: output.iso(job[name]) if name in TIMES else job[name] for name in names}
    if facts.get("error_stack"):
        facts["error_stack"] = output.in_lines(facts["error_stack"])
    return facts


def retry(
    ids: Annotated[list[str] | None, typer.Argument(metavar="ID", help="Only these jobs.")] = None,
    category: Annotated[
        Category | None, typer.Option(case_sensitive=False, help="Only failures of this category.")
    ] = None,
    reason: Annotated[
        Reason | None, typer.Option(case_sensitive=False, help="Only jobs that failed for this reason.")
    ] = None,
    status: Annotated[
        int | None,
        typer.Option(
            parser=_http_status, metavar="STATUS", help="Only failures with this HTTP status, such as 503."
        ),
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="At most this many.")] = None,
    json: Annotated[bool, typer.Option("--json", help="The answer as JSON.")] = False,
) -> None:
    """Queue failed jobs again, as if they were new: all of them, or those that the options name.

    \b
    Examples:
      neo4j-queue retry
      neo4j-queue retry --category TRANSIENT --limit 100
      neo4j-queue retry --status 503
    """
    with session.open_queue() as queue:
        done = queue.retry(_plain(category), _plain(reason), status, limit, ids or None)
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
    if ids and done.jobs + done.left < len(set(ids)):
        session.refuse(f"{len(set(ids)) - done.jobs - done.left} of the jobs named are not failed jobs")

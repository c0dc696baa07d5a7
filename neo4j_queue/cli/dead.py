"""`dead list`, `show`, `stats`, `export`: look at the jobs that failed for good."""

from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

import typer

from neo4j_queue.cli import attempts, output, replay, selection, session
from neo4j_queue.cli.jobs import LIST_MAX

if TYPE_CHECKING:
    from collections.abc import Mapping

    from neo4j_queue.queue.dead_letters import DeadLetterStats
    from neo4j_queue.reconcile.dead_texts import DeadText

# Characters of an error in a table; `dead show` has the rest.
ERROR_CHARS = 80
# Dead letters of one entity that are shown: each is of another text.
SHOWN = 5
# Jobs whose texts are read at once.
PAGE = 500
WORDS = {"reason": "reason", "category": "category", "type": "error_type", "status": "status"}

AsJson = Annotated[bool, typer.Option("--json", help="The answer as JSON.")]


def register(app: typer.Typer) -> None:
    """Adds this module's commands."""
    dead = typer.Typer(
        no_args_is_help=True, help="Dead letters, the jobs that failed for good: look, replay, purge."
    )
    dead.command("list")(list_dead)
    dead.command("show")(show)
    dead.command("stats")(stats)
    dead.command("replay")(replay.replay)
    dead.command("purge")(replay.purge)
    dead.command("export")(export)
    app.add_typer(dead, name="dead")
    app.command()(replay.retry)


def list_dead(
    category: selection.OfCategory = None,
    reason: selection.OfReason = None,
    status: selection.OfStatus = None,
    error_type: selection.OfType = None,
    since: selection.Since = None,
    until: selection.Until = None,
    quota: selection.OfQuota = False,
    limit: Annotated[int, typer.Option(min=1, max=LIST_MAX, help="At most this many.")] = 20,
    json: AsJson = False,
) -> None:
    """List dead letters, the last to fail first.

    \b
    Examples:
      neo4j-queue dead list
      neo4j-queue dead list --status 400 --since 24h
      neo4j-queue dead list --reason worker_lost --json | jq -r '.[].entity_uid'
    """
    wanted = selection.selection(category, reason, status, error_type, since, until, quota=quota)
    with session.open_queue() as queue:
        found = session.in_time("the jobs database", lambda: queue.dead.find(wanted, limit))
    if json:
        output.print_json(found)
        return
    if not found:
        print("No such dead letters.")
        return
    columns = ["id", "entity", "failed at", "reason", "category", "type", "status", "attempts", "error"]
    rows = [
        [
            job["id"],
            job["entity_uid"],
            output.iso(job["processed_at"]),
            job.get("failure_reason"),
            job.get("error_category"),
            job.get("error_type"),
            job.get("error_status"),
            f"{job.get('attempts', 0)}/{job.get('max_attempts', '?')}",
            (job.get("error") or "")[:ERROR_CHARS],
        ]
        for job in found
    ]
    output.print_table("", columns, rows)
    if len(found) == limit:
        print("There may be more: --limit, or neo4j-queue dead stats.")


def show(
    name: Annotated[str, typer.Argument(metavar="ID", help="A job's id, or the key of its entity.")],
    text: Annotated[bool, typer.Option("--text", help="Show the text itself, too.")] = False,
    json: AsJson = False,
) -> None:
    """Show one dead letter: its error, the attempts before it, and what became of its text.

    By the key of an entity the last few of its dead letters are shown. The queue keeps no text, only its hash: length
    and text are read from the graph, and known while the graph has that very text.

    \b
    Examples:
      neo4j-queue dead show "Ada Lovelace"
      neo4j-queue dead show 0b1f4ab8-0c0c-4f0e-9a59-5f9d0a1b2c3d --text
    """
    with session.open_both() as both:
        session.in_time("the jobs database", lambda: session.refuse_old_schema(both.queue.database))
        found = session.in_time("the jobs database", lambda: both.queue.dead.named(name, SHOWN))
        if not found:
            session.refuse(f"no dead letter of this id or entity: {name}")
        texts = _texts(both, found)
    if json:
        answer = [_with_text(job, texts, text=text) for job in found]
        output.print_json(answer[0] if found[0]["id"] == name else answer)
        return
    for job in found:
        _tell(job, texts.get(job["id"]), text=text)


def _tell(job: "Mapping[str, Any]", became: "DeadText | None", *, text: bool) -> None:
    status = job.get("error_status")
    kind = [job.get("error_category"), job.get("error_type"), f"HTTP {status}" if status else None]
    crashes = f", {job['crashes']} lost workers" if job.get("crashes") else ""
    facts = {
        "entity": job["entity_uid"],
        "job": job["id"],
        "failed at": output.iso(job["processed_at"]),
        "reason": job.get("failure_reason"),
        "error": job.get("error"),
        "of": " ".join(str(part) for part in kind if part),
        "attempts": f"{job.get('attempts', 0)} of {job.get('max_attempts', '?')}{crashes}",
        "worker": job.get("worker"),
        "created": output.iso(job["created_at"]),
        "model": job["model"],
        "text": str(became or "not known: the graph does not answer"),
    }
    output.print_facts("", facts)
    attempts.tell(attempts.TITLE, job.get("history", ()))
    if text and became is not None and became.text is not None:
        print()
        output.print_facts("Text", {"": output.in_lines(became.text)})
    print(f"\nAgain: neo4j-queue dead replay {job['id']}")
    if job.get("error_stack"):
        print(f"Stack: neo4j-queue jobs show {job['id']}")


def _texts(both: session.Both, jobs: "list[dict[str, Any]]") -> "dict[str, DeadText]":
    """What became of their texts; nothing, with a warning, where the graph is away."""
    from neo4j.exceptions import DriverError, Neo4jError

    from neo4j_queue.errors import TemporarilyUnavailable
    from neo4j_queue.errors.explain import explain, is_temporary
    from neo4j_queue.reconcile.dead_texts import texts_of

    try:
        return session.in_time("the graph", lambda: texts_of(both.graph, jobs))
    except (TemporarilyUnavailable, Neo4jError, DriverError) as error:
        if isinstance(error, Neo4jError | DriverError) and not is_temporary(error):
            raise
        session.warn(f"what became of the texts is not known: {explain(error)}")
        return {}


def _with_text(job: "Mapping[str, Any]", texts: "Mapping[str, DeadText]", *, text: bool) -> "dict[str, Any]":
    became = texts.get(job["id"])
    return {**job, "text": became and became.as_json(text=text)}


def stats(
    category: selection.OfCategory = None,
    reason: selection.OfReason = None,
    status: selection.OfStatus = None,
    error_type: selection.OfType = None,
    since: selection.Since = None,
    until: selection.Until = None,
    quota: selection.OfQuota = False,
    json: AsJson = False,
) -> None:
    """Count dead letters by what they failed of, and by day (UTC).

    \b
    Examples:
      neo4j-queue dead stats
      neo4j-queue dead stats --since 24h --json | jq .by_status
    """
    wanted = selection.selection(category, reason, status, error_type, since, until, quota=quota)
    with session.open_queue() as queue:
        found = queue.dead.stats(wanted)
        limit = queue.settings.embed_dead_letter_alert
    if json:
        output.print_json(_counts(found, limit))
        return
    if not found.jobs:
        print("No such dead letters.")
        return
    told = f" (EMBED_DEAD_LETTER_ALERT: more than {limit:,} are told)" if limit else ""
    facts: dict[str, object] = {"dead letters": f"{found.jobs:,}{told}", "model tokens": found.est_tokens}
    facts |= {
        f"by {word}": [f"{value} ({count:,})" for value, count in found.by(name).items()]
        for word, name in WORDS.items()
    }
    output.print_facts("", facts)
    print()
    rows: list[list[object]] = [
        [g.jobs, g.reason, g.category, g.error_type, g.status, output.iso(g.last_at), g.example]
        for g in found.groups
    ]
    columns = ["jobs", "reason", "category", "type", "status", "last at", "an error of them"]
    output.print_table("What failed alike", columns, rows)
    output.print_table("By day", ["day", "jobs"], [[day, jobs] for day, jobs in found.by_day.items()])


def _counts(found: "DeadLetterStats", limit: int) -> "dict[str, object]":
    return {
        "jobs": found.jobs,
        "alert_above": limit or None,
        "est_tokens": found.est_tokens,
        **{f"by_{word}": found.by(name) for word, name in WORDS.items()},
        "by_day": found.by_day,
        "groups": [
            {
                "reason": group.reason,
                "category": group.category,
                "type": group.error_type,
                "status": group.status,
                "jobs": group.jobs,
                "first_at": output.iso(group.first_at),
                "last_at": output.iso(group.last_at),
                "example": group.example,
                "example_id": group.example_id,
            }
            for group in found.groups
        ],
    }


def export(
    category: selection.OfCategory = None,
    reason: selection.OfReason = None,
    status: selection.OfStatus = None,
    error_type: selection.OfType = None,
    since: selection.Since = None,
    until: selection.Until = None,
    quota: selection.OfQuota = False,
    limit: Annotated[int | None, typer.Option(min=1, help="At most this many.")] = None,
    text: Annotated[bool, typer.Option("--text", help="With the texts, as the graph has them now.")] = False,
    json: Annotated[  # noqa: ARG001 (it is always JSON; the option is there as everywhere)
        bool, typer.Option("--json", help="JSON lines, as without it.")
    ] = False,
) -> None:
    """Write dead letters as JSON lines, the last to fail first: one job with its attempts in each; no vectors.

    With --text each has what became of its text, and the text where it is as it was.

    \b
    Examples:
      neo4j-queue dead export > dead.jsonl
      neo4j-queue dead export --since 7d --text | jq -r 'select(.text.state == "as_it_was") | .text.text'
    """
    wanted = selection.selection(category, reason, status, error_type, since, until, quota=quota)
    if not text:
        with session.open_queue() as queue, suppress(BrokenPipeError):
            for job in queue.dead.walk(wanted, limit):
                output.print_json(job)
        return
    from neo4j_queue.reconcile.dead_texts import texts_of

    with session.open_both() as both, suppress(BrokenPipeError):
        session.refuse_old_schema(both.queue.database)
        jobs = both.queue.dead.walk(wanted, limit)
        while page := list(islice(jobs, PAGE)):
            texts = texts_of(both.graph, page)
            for job in page:
                output.print_json(_with_text(job, texts, text=True))

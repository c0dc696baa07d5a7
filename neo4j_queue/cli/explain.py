"""`explain`: why has this entity no fresh vector?"""

from typing import TYPE_CHECKING, Annotated

import typer

from neo4j_queue.cli import attempts, output, session

if TYPE_CHECKING:
    from neo4j_queue.reconcile.explanation import Explanation, JobRecord

BAD = 1
# Characters of an error in the table; `jobs show` has the rest.
ERROR_CHARS = 80
SHORT = 12


def register(app: typer.Typer) -> None:
    """Adds this module's command."""
    app.command()(explain)


def explain(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The entity, by its key.")],
    text: Annotated[bool, typer.Option("--text", help="Show the text as it would be sent, too.")] = False,
    json: Annotated[bool, typer.Option("--json", help="The answer as JSON.")] = False,
) -> None:
    """Say why an entity has no fresh vector: scope, text, vector, jobs, what it waits for, and what helps.

    Exit code 0 if its vector is fresh or will be without help, 1 if a person is needed or there is no such entity. It
    costs the same whatever graph and queue hold.

    \b
    Examples:
      neo4j-queue explain "Ada Lovelace"
      neo4j-queue explain "Ada Lovelace" --json | jq -r .command
    """
    with session.open_both() as both:
        from neo4j_queue.reconcile.explain import explain as explained

        session.in_time("the jobs database", lambda: session.refuse_old_schema(both.queue.database))
        found = session.in_time(
            "one of the databases", lambda: explained(both.graph, both.queue, both.settings, name)
        )
    if json:
        output.print_json(found.as_json(text=text))
    else:
        _tell(found, text=text)
    if not found.well:
        raise typer.Exit(BAD)


def _tell(found: "Explanation", *, text: bool) -> None:
    causes = [cause.why for cause in found.causes]
    facts: dict[str, object] = {
        "entity": found.name,
        "in scope": _scope(found),
        "vector": _vector(found),
        "why": causes[0],
        "also": output.in_lines("\n".join(causes[1:])) if causes[1:] else None,
        "ready": _ready(found),
        "command": found.command,
        "advice": found.advice,
        "text": _text(found),
    }
    output.print_facts("", facts)
    if text and found.text is not None:
        print()
        output.print_facts("Text", {"": output.in_lines(found.text.text)})
    if found.jobs:
        print()
        output.print_table("Jobs, in the order of time", _COLUMNS, [_row(job) for job in found.jobs])
        if found.more_jobs:
            print("There are more jobs of this entity than are shown.")
    for job in found.jobs:
        if job.current:
            attempts.tell(attempts.TITLE, job.history)


def _scope(found: "Explanation") -> str:
    if not found.in_scope:
        return f"no (:{found.label} by `{found.key}`)"
    if found.nodes == 1:
        return f"yes, a :{found.label}"
    least = "at least " if found.more_nodes else ""
    return f"yes, {least}{found.nodes} nodes :{found.label} share this `{found.key}`; this is one of them"


def _vector(found: "Explanation") -> str | None:
    vector = found.vector
    if vector is None:
        return None
    state = str(vector.state).replace("_", " ")
    parts = [
        f"model {vector.model}" if vector.model else None,
        f"{vector.width} numbers" if vector.width is not None else None,
        f"made {output.iso(vector.embedded_at)}" if vector.embedded_at is not None else None,
        "of the beginning of its text" if vector.truncated else None,
    ]
    known = ", ".join(part for part in parts if part)
    return f"{state} ({known})" if known and vector.state != "missing" else state


def _ready(found: "Explanation") -> str | None:
    if found.ready_at is None:
        waits = any(job.current and job.status in ("pending", "processing") for job in found.jobs)
        return "not known" if found.well and waits else None
    left = output.duration(max(0, found.ready_at - found.now) / 1000)
    return f"about {output.iso(found.ready_at)} (in {left})"


def _text(found: "Explanation") -> str | None:
    text = found.text
    if text is None:
        return None
    if not text.characters:
        return "empty"
    cut = f", the first {text.sent_characters:,} characters of it are sent" if text.cut else ""
    return (
        f"{text.characters:,} characters, about {text.est_tokens:,} tokens{cut}; SHA-256 {text.hash[:SHORT]}…"
    )


_COLUMNS = [
    *("id", "text", "status", "created", "ended or due", "attempts", "owner", "running since", "outcome"),
    "error",
]


def _row(job: "JobRecord") -> list[object]:
    running = job.status == "processing"
    kind = [job.error_category, job.error_type, f"HTTP {job.error_status}" if job.error_status else None]
    error = " ".join(part for part in kind if part)
    return [
        job.id,
        "as it is now" if job.current else f"another ({job.version[:8]})",
        job.status,
        output.iso(job.created_at),
        output.iso(job.ended_at if job.ended_at is not None else job.available_at),
        f"{job.attempts}/{job.max_attempts}" + (f", {job.crashes} crashes" if job.crashes else ""),
        job.owner,
        output.iso(job.started_at) if running else None,
        job.outcome,
        f"{error}: {(job.error or '')[:ERROR_CHARS]}" if error else (job.error or "")[:ERROR_CHARS],
    ]

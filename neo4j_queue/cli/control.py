"""`pause`, `resume`, `cleanup`: steer the queue as a whole."""

from dataclasses import asdict
from typing import Annotated

import typer

from neo4j_queue import pauses
from neo4j_queue.cli import output, session


def register(app: typer.Typer) -> None:
    """Adds this module's commands."""
    # So that a number below zero reaches `_seconds`, and is not taken for an option.
    app.command(context_settings={"ignore_unknown_options": True})(pause)
    app.command()(resume)
    app.command()(cleanup)


def _seconds(text: str) -> float:
    """The time of `pause`: one that has an end, and is more than nothing."""
    try:
        return pauses.meant(text)
    except ValueError:
        wanted = f"a number of seconds, more than 0 and at most {pauses.LONGEST_S:,}"
        raise typer.BadParameter(f"{text!r} is not {wanted}.") from None


def pause(
    seconds: Annotated[
        float, typer.Argument(parser=_seconds, metavar="SECONDS", help="How long, in seconds.")
    ],
    reason: Annotated[
        str, typer.Option(help="Why; `status` and `doctor` show it.")
    ] = "paused by an operator",
    json: Annotated[bool, typer.Option("--json", help="The answer as JSON.")] = False,
) -> None:
    """Lease and start nothing for so many seconds; what runs is finished. A longer pause in force stays.

    \b
    Examples:
      neo4j-queue pause 600 --reason "provider maintenance"
    """
    from neo4j_queue.queue import switches

    with session.open_queue() as queue:
        until = output.iso(switches.pause(queue, seconds, reason))
    if json:
        output.print_json({"paused_until": until})
    else:
        print(f"Paused until {until}; `neo4j-queue resume` ends it before.")


def resume(
    halt: Annotated[bool, typer.Option("--halt", help="End a halt; a pause goes on.")] = False,
    pause: Annotated[bool, typer.Option("--pause", help="End a pause; a halt goes on.")] = False,
    json: Annotated[bool, typer.Option("--json", help="The answer as JSON.")] = False,
) -> None:
    """End a halt and a pause, and try a provider that is at rest again at once.

    \b
    Examples:
      neo4j-queue resume
      neo4j-queue resume --pause
    """
    from neo4j_queue.queue import switches

    with session.open_queue() as queue:
        both = halt == pause
        ended = switches.resume(queue, halt=halt or both, pause=pause or both)
        state = queue.control.state()
    if any(ended):
        session.nudge()
    if json:
        output.print_json(
            {"was_halted": ended.halted, "was_paused": ended.paused, "was_in_trouble": ended.troubled}
        )
        return
    was = ("halted", "paused", "waiting for the provider")
    if any(ended):
        print(
            f"Ended: the queue was {' and '.join(word for word, yes in zip(was, ended, strict=True) if yes)}."
        )
    else:
        print("Nothing to do: the queue was neither halted nor paused.")
    if state.halted:
        print(f"It is still halted: {state.halted_reason}")
    if state.paused:
        print(f"It is still paused until {output.iso(state.paused_until)}: {state.pause_reason}")


def cleanup(
    json: Annotated[bool, typer.Option("--json", help="The answer as JSON.")] = False,
) -> None:
    """Remove ended jobs older than EMBED_JOB_RETENTION_DAYS now, instead of waiting for the daily run.

    Failed ones leave an archive record for EMBED_JOB_ARCHIVE_DAYS.

    \b
    Examples:
      neo4j-queue cleanup
    """
    with session.open_queue(needs_retention=True) as queue:
        report = queue.cleanup()
    if json:
        output.print_json({**asdict(report), "cutoff": output.iso(report.cutoff)})
        return
    removed = output.counted(report.removed, "job")
    print(f"{removed} that ended before {output.iso(report.cutoff)} removed ({report.path}).")
    archived, leases = report.archive_purged, report.leases_pruned
    print(f"{output.counted(archived, 'archive record')} and {output.counted(leases, 'old lease')} removed.")

"""`watch`: the queue as it goes on, on a terminal as a picture, in a pipe as lines."""

import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from neo4j_queue.cli import driver, output, session

if TYPE_CHECKING:
    from collections.abc import Sequence

    from neo4j_queue.queue import EmbedQueue
    from neo4j_queue.queue.health import Health
    from neo4j_queue.queue.leases import QueueStatus
    from neo4j_queue.queue.listing import Job
    from neo4j_queue.queue.outlook import Outlook

INTERVAL_S, INTERVAL_MIN_S = 2.0, 0.2
# The rate is that of the last half minute: shorter, and each batch is a jump; longer, and it lags behind.
RATE_OVER_S = 30.0
# The last dead letters, and characters of their errors.
ERRORS, ERROR_CHARS = 5, 100


def register(app: typer.Typer) -> None:
    """Adds this module's command."""
    app.command()(watch)


@dataclass(frozen=True, slots=True)
class Look:
    """One look at the queue. `rate`: jobs that ended per second lately, None = not known yet."""

    state: "QueueStatus"
    outlook: "Outlook"
    health: "Health"
    errors: "Sequence[Job]"
    rate: float | None

    def as_json(self) -> dict[str, Any]:
        """The answer of `status` without its coverage, and what `watch` adds."""
        from neo4j_queue.reconcile.status import answer

        known = answer(self.state, self.outlook, None)
        del known["coverage"]
        return {
            "at": output.iso(self.state.now),
            **known,
            "rate_per_second": None if self.rate is None else round(self.rate, 2),
            "health": str(self.health.state),
            "reasons": self.health.reasons,
            "last_errors": [
                {
                    "id": job["id"],
                    "entity": job["entity_uid"],
                    "at": output.iso(job["processed_at"]),
                    "error": job.get("error"),
                }
                for job in self.errors
            ],
        }

    def line(self) -> str:
        """The look in one line."""
        state = self.state
        parts = [
            str(self.health.state),
            f"pending {state.pending:,}",
            *([f"delayed {state.delayed:,}"] if state.delayed else []),
            f"processing {state.processing:,}",
            f"completed {state.completed:,}",
            f"failed {state.failed:,}",
            *([f"{self.rate:,.1f}/s"] if self.rate is not None else []),
            *([f"done at {output.iso(self.outlook.done_at)}"] if self.outlook.done_at else []),
            *([f"waiting for {self.outlook.waiting_for}"] if self.outlook.waiting_for else []),
            *self.health.reasons,
        ]
        return f"{output.iso(state.now)}  {' | '.join(parts)}"


class Rate:
    """How fast jobs end, by how many had ended at the looks of the last half minute."""

    def __init__(self) -> None:
        self._seen: deque[tuple[int, int]] = deque()

    def of(self, now_ms: int, ended: int) -> float | None:
        """Jobs per second; None at the first look. A clean-up that removes ended jobs is no work."""
        while self._seen and (now_ms - self._seen[0][0] > RATE_OVER_S * 1000 or ended < self._seen[-1][1]):
            self._seen.popleft()
        self._seen.append((now_ms, ended))
        first_ms, first = self._seen[0]
        return None if now_ms <= first_ms else (ended - first) * 1000 / (now_ms - first_ms)


def watch(
    interval: Annotated[
        float, typer.Option(min=INTERVAL_MIN_S, max=3600, help="Seconds between two looks.")
    ] = INTERVAL_S,
    count: Annotated[
        int | None, typer.Option(min=1, help="End after so many looks (default: at Ctrl-C).")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON object per look, each on a line.")] = False,
) -> None:
    """Show depth, rate, the time of the end, workers, health and the last errors, over and over until Ctrl-C.

    On a terminal it is one picture that changes; in a pipe each look is a line. While the jobs database is away it says
    so and goes on; where it is away from the beginning, the exit code is 75.

    \b
    Examples:
      neo4j-queue watch
      neo4j-queue watch --interval 10 >> queue.log
      neo4j-queue watch --json --count 1 | jq .rate_per_second
    """
    driver.load()
    with session.open_queue() as queue, _shown(json=json) as (show, trouble):
        rate, looks = Rate(), 0
        try:
            while True:
                _look_once(queue, rate, show, trouble)
                looks += 1
                if looks == count:
                    return
                time.sleep(interval)
        except (KeyboardInterrupt, BrokenPipeError):
            return


def _look_once(
    queue: "EmbedQueue", rate: Rate, show: Callable[[Look], None], trouble: Callable[[str], None]
) -> None:
    from neo4j.exceptions import DriverError, Neo4jError

    from neo4j_queue.checks.unreachable import why_unreachable
    from neo4j_queue.errors import TemporarilyUnavailable
    from neo4j_queue.errors.explain import is_temporary

    try:
        show(session.in_time("the jobs database", lambda: look(queue, rate)))
    except (TemporarilyUnavailable, Neo4jError, DriverError) as error:
        if isinstance(error, Neo4jError | DriverError) and not is_temporary(error):
            raise
        trouble(f"the jobs database does not answer: {why_unreachable(error, queue.settings)}")


def look(queue: "EmbedQueue", rate: Rate) -> Look:
    """Looks once; reads alone, so any number of people may watch."""
    from neo4j_queue.checks import health as checked
    from neo4j_queue.queue import outlook

    state = queue.status()
    ahead = outlook.read(queue, state)
    facts = checked.read(queue, state, write=False)
    found = checked.judge_jobs(facts, queue.settings, broker=None, missing=None)
    found = found.with_causes(checked.dead_letters(facts, queue.settings.embed_dead_letter_alert))
    errors = queue.dead.find(limit=ERRORS) if state.failed else []
    return Look(state, ahead, found, errors, rate.of(state.now, state.completed + state.failed))


@contextmanager
def _shown(*, json: bool) -> Iterator[tuple[Callable[[Look], None], Callable[[str], None]]]:
    """How a look is shown, and how trouble is told."""
    if not json and sys.stdout.isatty():
        with _picture() as both:
            yield both
        return

    def show(found: Look) -> None:
        if json:
            output.print_json(found.as_json())
        else:
            output.print_line(found.line())
        sys.stdout.flush()

    yield show, session.warn


@contextmanager
def _picture() -> Iterator[tuple[Callable[[Look], None], Callable[[str], None]]]:
    from rich.console import Console, Group
    from rich.live import Live
    from rich.text import Text

    with Live(console=Console(highlight=False), auto_refresh=False, screen=False) as live:

        def trouble(line: str) -> None:
            live.update(Text(output.visible(line), style="bold red"), refresh=True)

        yield lambda found: live.update(Group(*_parts(found)), refresh=True), trouble


def _parts(found: Look) -> list[Any]:
    """The picture: what is, who works, and what failed last."""
    state, outlook = found.state, found.outlook
    oldest = output.duration(state.oldest_pending_seconds)
    facts: dict[str, object] = {
        "health": f"{found.health.state}" + "".join(f"; {why}" for why in found.health.reasons),
        "pending": f"{state.pending:,}" + (f" (oldest due for {oldest})" if oldest else ""),
        "delayed": state.delayed or None,
        "processing": state.processing,
        "completed": state.completed,
        "failed": state.failed,
        "rate": None if found.rate is None else f"{found.rate:,.1f} jobs/s",
        "waiting for": outlook.waiting_for,
        "done at": output.iso(outlook.done_at),
        "limits": [str(window) for window in outlook.windows] or None,
    }
    at = output.iso(state.now)
    parts = [output.in_pairs(f"Queue at {at}, Ctrl-C ends the watch", facts)]
    if state.workers:
        rows = [
            [w.name, w.slots, w.leases, f"{output.duration(w.seen_ms_ago / 1000)} ago"] for w in state.workers
        ]
        parts.append(output.table("Workers", ["name", "slots", "leases", "last answer"], rows))
    if found.errors:
        rows = [
            [output.iso(job["processed_at"]), job["entity_uid"], (job.get("error") or "")[:ERROR_CHARS]]
            for job in found.errors
        ]
        parts.append(
            output.table("Last dead letters (neo4j-queue dead list)", ["at", "entity", "error"], rows)
        )
    return parts

"""Who is missing: a control worker, an embed worker, beat. The workers answer for themselves, beat by its ticks."""

import time
from dataclasses import dataclass

from neo4j.exceptions import DriverError, Neo4jError

from neo4j_queue.checks.findings import Finding, Grade
from neo4j_queue.database import Database
from neo4j_queue.errors import SettingsError
from neo4j_queue.queue import EmbedQueue
from neo4j_queue.queue.reasons import Code, Reason
from neo4j_queue.settings import Settings
from tasks import broker, deployment
from tasks.app import app
from tasks.broker import BROKER_ERRORS, MOST_WISHES
from tasks.census import ANSWER_TIMEOUT_S, foreign
from tasks.routes import CONTROL, EMBED

# Longer than between two ticks of beat: where no worker takes them, one more must wait afterwards.
WATCH_S = 1.5

NO_CONTROL = "no control worker answers, so nothing is leased"
NO_EMBED = "no embed worker answers, so nothing is embedded"
START_CONTROL = "start one: `celery -A tasks worker -Q control`"
START_EMBED = "start one: `celery -A tasks worker -Q embed`"
START_BEAT = (
    "start it: `celery -A tasks beat`; without it no dead worker's jobs come back, and nothing is swept"
)

CODES = {
    "control worker": Code.CONTROL_WORKER_MISSING,
    "embed worker": Code.EMBED_WORKER_MISSING,
    "beat": Code.BEAT_MISSING,
    "broker": Code.FOREIGN_WORKERS,
}


@dataclass(frozen=True, slots=True)
class Presence:
    """Who is there. `beat` is None when it cannot be seen: its ticks wait for a control worker that is busy or away."""

    control: bool
    embed: bool
    beat: bool | None
    beat_ms: int | None
    strangers: tuple[str, ...] = ()

    def findings(self) -> list[Finding]:
        """One for each that is missing."""
        found = []
        if not self.control:
            found.append(Finding("control worker", Grade.BAD, NO_CONTROL, START_CONTROL))
        if not self.embed:
            found.append(Finding("embed worker", Grade.BAD, NO_EMBED, START_EMBED))
        if self.beat is False:
            since = (
                "never ticked" if self.beat_ms is None else f"has not ticked for {self.beat_ms / 1000:.0f} s"
            )
            found.append(Finding("beat", Grade.WARNING, f"beat {since}", START_BEAT))
        if self.strangers:
            detail = f"workers of another deployment use the same Redis database: {', '.join(self.strangers)}"
            found.append(Finding("broker", Grade.WARNING, detail, deployment.ADVICE))
        return found

    def reasons(self) -> list[Reason]:
        """The same, as the health tells it."""
        return [Reason(CODES[each.subject], f"{each.detail}: {each.advice}") for each in self.findings()]


def look(url: str, queue: EmbedQueue) -> Presence | None:
    """Asks all workers, and reads when beat's last tick was run; None when the broker does not answer."""
    own = deployment.of(queue.database)
    began = time.monotonic()
    waited = broker.waiting(url)
    try:
        answers = app.control.broadcast("embed_census", reply=True, timeout=ANSWER_TIMEOUT_S) or []
    except BROKER_ERRORS:
        return None
    told = {name: said for answer in answers for name, said in answer.items() if isinstance(said, dict)}
    strangers = tuple(sorted(name for name, said in told.items() if foreign(said, own)))
    said = [each for name, each in told.items() if name not in strangers]
    serves = {queue for each in said for queue in each.get("queues", ())}
    known = queue.ticks.ages()
    beat: bool | None = not known.beat_is_missing
    if not beat:
        time.sleep(max(0.0, began + WATCH_S - time.monotonic()))
        beat = _ticks(waited, broker.waiting(url), taken=CONTROL in serves)
    return Presence(CONTROL in serves, EMBED in serves, beat, known.beat_ms, strangers)


def examine(settings: Settings) -> list[Finding]:
    """Who is missing, as `doctor` sees it; nothing when the broker or the jobs database does not answer: that is
    found by others."""
    with Database(settings.jobs_address(), retry_time_s=0) as database:
        try:
            there = look(settings.celery_broker_url, EmbedQueue(database, settings))
        except (Neo4jError, DriverError, SettingsError):
            return []
    return [] if there is None else there.findings()


def _ticks(before: int | None, after: int | None, *, taken: bool) -> bool | None:
    """Does beat tick, as far as the messages that wait can tell? `taken`: a control worker takes them."""
    if before is None or after is None:
        return None
    if after > before and not taken:
        return True
    # With messages waiting before a busy worker, or held back at their bound, a tick would not be seen.
    return None if after >= (1 if taken else MOST_WISHES) else False

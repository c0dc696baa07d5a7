"""What a person who has signed in may do: each act is what the command of the same name does, and says what became of
it in one sentence."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from neo4j_queue import pauses
from neo4j_queue.log import get_logger
from neo4j_queue.queue import EmbedQueue, listing, switches
from neo4j_queue.queue.failed_jobs import Selection

# Queued again by one button: a second of locks, and at a usual price some cents.
MOST_REPLAYED = 1_000
REASON_CHARS = 200
CONFIRMED = "yes"

log = get_logger()


class BadForm(ValueError):
    """A form that asks for nothing that can be done; says why."""


@dataclass(frozen=True, slots=True)
class Done:
    """What an act did. `due`: jobs may be due now, so that the workers are to be told."""

    said: str
    due: bool = False


Form = Mapping[str, str]
Act = Callable[[EmbedQueue, Form], Done]


def replay(queue: EmbedQueue, form: Form) -> Done:
    """Queues one dead letter again."""
    job_id = form.get("job", "")
    done = queue.dead.replay(ids=[job_id])
    log.info("page_acted", act="replay", job=job_id, jobs=done.jobs)
    if done.jobs:
        return Done("Queued again.", due=True)
    if done.left:
        return Done(_left(done.left))
    return Done("Not queued: it is no dead letter any more.")


def replay_matching(queue: EmbedQueue, form: Form) -> Done:
    """Queues the latest dead letters of a kind again, at most so many."""
    selection, most = selection_of(form), _whole(form, "most", MOST_REPLAYED)
    if form.get("confirmed") != CONFIRMED:
        raise BadForm("tick the box first: each of them is asked of the provider again")
    # What the page shows: the latest.
    done = queue.dead.replay(ids=queue.dead.latest(selection, most))
    log.info("page_acted", act="replay", jobs=done.jobs)
    left = f" {_left(done.left)}" if done.left else ""
    return Done(f"{_jobs(done.jobs)} queued again.{left}", due=done.jobs > 0)


def pause(queue: EmbedQueue, form: Form) -> Done:
    """Leases nothing for so many minutes."""
    minutes = _whole(form, "minutes", pauses.LONGEST_S // 60)
    reason = form.get("reason", "").strip()[:REASON_CHARS] or "paused by an operator"
    switches.pause(queue, minutes * 60, reason)
    return Done(f"Paused for {minutes:,} minute{'' if minutes == 1 else 's'}; a longer pause stays.")


def resume(queue: EmbedQueue, _form: Form) -> Done:
    """Ends a halt and a pause."""
    ended = switches.resume(queue)
    if any(ended):
        return Done("Resumed.", due=True)
    return Done("Nothing to do: the queue was neither halted nor paused.")


def release(queue: EmbedQueue, form: Form) -> Done:
    """Takes back what a worker runs."""
    worker = form.get("worker", "")
    if form.get("confirmed") != CONFIRMED:
        raise BadForm("tick the box first: what the worker has asked of the provider is lost")
    held = [job for job in listing.held(queue.database) if job.worker == worker]
    released = queue.release_jobs([job.id for job in held], {job.token for job in held}) if held else []
    log.info("page_acted", act="release", worker=worker, jobs=len(released))
    return Done(f"{_jobs(len(released))} taken back.", due=bool(released))


ACTS: dict[str, Act] = {
    "replay": replay,
    "replay-matching": replay_matching,
    "pause": pause,
    "resume": resume,
    "release": release,
}


def selection_of(form: Form) -> Selection:
    """Which dead letters are meant."""
    status = form.get("status", "").strip()
    if status and not (status.isascii() and status.isdigit() and len(status) <= 3):
        raise BadForm("an HTTP status is a number of three digits")
    return Selection(
        category=form.get("category", "").strip() or None,
        reason=form.get("reason", "").strip() or None,
        status=int(status) if status else None,
        error_type=form.get("type", "").strip() or None,
    )


def _whole(form: Form, name: str, most: int) -> int:
    text = form.get(name, "").strip()
    if not (text.isascii() and text.isdigit() and len(text) <= 12 and 1 <= int(text) <= most):
        raise BadForm(f"{name} must be a whole number from 1 to {most:,}")
    return int(text)


def _jobs(count: int) -> str:
    return f"{count:,} job{'' if count == 1 else 's'}"


def _left(count: int) -> str:
    return f"{_jobs(count)} left as before: made under settings with another graph, label or key than those in force."

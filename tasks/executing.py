"""What the workers run just now, by their own word: asked by an operator who takes jobs back from dead ones."""

from collections.abc import Collection, Mapping

from neo4j_queue.errors import TemporarilyUnavailable
from neo4j_queue.queue.leases import HeldJob
from tasks import broker
from tasks.app import app
from tasks.broker import BROKER_ERRORS

# Workers answer from their main process within milliseconds, also while every slot is busy. Three times what the census
# allows: a slow answer would make a living worker a dead one.
ANSWER_WITHIN_S = 3.0

Answers = Mapping[str, Collection[str] | None]


def ask(url: str) -> Answers:
    """The tokens of the leases that each worker runs, by the names of the workers that answer; None = it cannot tell.

    Raises `TemporarilyUnavailable` when the broker does not answer: silence says nothing then.
    """
    broker.ping(url)
    try:
        said = app.control.broadcast("embed_census", reply=True, timeout=ANSWER_WITHIN_S) or []
    except BROKER_ERRORS as error:
        raise TemporarilyUnavailable(f"the workers cannot be asked: {type(error).__name__}") from error
    return {
        name: set(answer["leases"]) if "leases" in answer else None
        for each in said
        for name, answer in each.items()
    }


def is_orphan(job: HeldJob, answers: Answers) -> bool:
    """True if the work on this job began and its worker is silent or runs something else; no other worker runs it."""
    if job.worker is None:
        return False
    unknown = job.worker in answers and answers[job.worker] is None
    return not unknown and not any(job.token in (tokens or ()) for tokens in answers.values())

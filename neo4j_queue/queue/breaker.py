"""The breaker: what the queue knows about the provider, and when all workers rest because of it.

An outage (several failures in a row), a used-up quota and a rate limit are *trouble*. The queue rests, longer with
each round, and then goes on by itself: after a rate limit with all workers, after an outage or a used-up quota with a
probe, a lease of a single job that finds out whether the provider works again. The facts come from the control node,
the judgement is the pure function `judge_failure`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from neo4j import ManagedTransaction

from neo4j_queue.cypher import statement
from neo4j_queue.database import rows
from neo4j_queue.errors import Fault, FaultKind
from neo4j_queue.queue import tally

# So many failures in a row are an outage; one or two are a hiccup, which the jobs' own back-off answers.
FAILURES_TO_OPEN = 5
# As much of a message as `status` and `doctor` show: that of a configuration's fault says at its end what to do.
REASON_CHARS = 300


class Trouble(StrEnum):
    """Why the queue rests because of the provider; `trouble` of the control node."""

    OUTAGE = "outage"
    QUOTA = "quota"
    RATE_LIMIT = "rate_limit"


# While one of these lasts, only probes are leased and started.
PROBED = frozenset({Trouble.OUTAGE, Trouble.QUOTA})


@dataclass(frozen=True, slots=True)
class Rest:
    """How long the queue rests in the first round, how much longer in each further one, and at most. Seconds."""

    first_s: float
    growth: float
    most_s: float

    def seconds(self, round_number: int) -> float:
        """The rest of the n-th round in a row, from 1."""
        # A thousand rounds are beyond every maximum, and below the largest float.
        return float(min(self.most_s, self.first_s * self.growth ** min(round_number - 1, 1_000)))


# Each rest after an outage is five seconds and a twenty-fifth of the time that it has lasted: an outage of a minute is
# found over within eight seconds (two more, and everybody is at work), one of an hour within two and a half minutes,
# with some ninety probes in that hour. A quota is full again when someone pays, a rate limit passes within its window.
RESTS = {
    Trouble.OUTAGE: Rest(5.0, 26 / 25, 300.0),
    Trouble.QUOTA: Rest(60.0, 2.0, 3_600.0),
    Trouble.RATE_LIMIT: Rest(1.0, 2.0, 60.0),
}
TROUBLE_OF = {
    FaultKind.OUTAGE: Trouble.OUTAGE,
    FaultKind.QUOTA: Trouble.QUOTA,
    FaultKind.RATE_LIMIT: Trouble.RATE_LIMIT,
}


@dataclass(frozen=True, slots=True)
class ProviderFacts:
    """What is known when news of a request arrives, read under the control lock. Times in epoch ms, server clock."""

    now: int
    ours: bool
    leased_at: int | None
    probe: bool
    trouble: str | None
    rounds: int
    failures: int
    paused_until: int | None

    @property
    def recent(self) -> bool:
        """True if the request was leased after the last rest ended: older news says nothing about the time since."""
        return self.leased_at is not None and self.leased_at >= (self.paused_until or 0)


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a failure means. `charged`: it counts an attempt of its jobs, because no trouble was known before.

    `wait_ms` is the rest that it asks for (0 = none); `begins`: it began or renewed the trouble.
    """

    trouble: Trouble | None
    rounds: int
    failures: int
    wait_ms: int = 0
    charged: bool = False
    begins: bool = False


def judge_failure(facts: ProviderFacts, trouble: Trouble, asked_s: float | None, to_open: int) -> Judgement:
    """What a failure that means `trouble` changes. An outage begins with `to_open` failures in a row.

    `asked_s` is the wait that the provider asked for. For a rate limit it is the wait; otherwise it can only make our
    own wait longer, up to its maximum.
    """
    known = None if facts.trouble is None else Trouble(facts.trouble)
    outage = trouble is Trouble.OUTAGE
    failures = facts.failures + outage
    charged = outage and known not in PROBED
    resting = known in PROBED or known is trouble
    begins = facts.recent if resting else not outage or failures >= to_open
    if not begins:
        # Several requests may meet one rate limit, and be told different waits.
        asked = asked_s if trouble is Trouble.RATE_LIMIT is known else None
        return Judgement(known, facts.rounds, failures, round((asked or 0.0) * 1000), charged)
    rounds = facts.rounds + 1 if known is trouble else 1
    rest = RESTS[trouble]
    wait_s = rest.seconds(rounds)
    if asked_s is not None:
        wait_s = asked_s if trouble is Trouble.RATE_LIMIT else min(max(asked_s, wait_s), rest.most_s)
    return Judgement(trouble, rounds, failures, round(wait_s * 1000), charged, begins=True)


@dataclass(frozen=True, slots=True)
class FailureNews:
    """What news of a failure changed. `release_delay_ms`: the delay of a failed probe's jobs, so that the next probe is
    another job: one that always fails must not keep the queue closed."""

    charged: bool
    begins: bool
    wait_ms: int
    release_delay_ms: int


def note_failure(
    tx: ManagedTransaction, token: str, ids: Sequence[str], fault: Fault, *, to_open: int, now: int | None
) -> FailureNews | None:
    """Stores that the provider failed a request of lease `token` with jobs `ids`; None if it holds none of them any
    more."""
    facts = _facts(tx, token, ids, now)
    if not facts.ours:
        return None
    trouble = TROUBLE_OF[fault.kind]
    judged = judge_failure(facts, trouble, fault.retry_after_s, to_open)
    _store(tx, judged.trouble, judged.rounds, judged.failures)
    if judged.wait_ms:
        reason = f"{trouble}: {reason_of(fault)}"
        rows(tx, statement("control/pause"), ms=judged.wait_ms, reason=reason, now=facts.now)
        tally.add(tx, {f"pauses:{trouble}": 1})
    delay_ms = judged.wait_ms if facts.probe else 0
    return FailureNews(judged.charged, judged.begins, judged.wait_ms, delay_ms)


def note_success(tx: ManagedTransaction, token: str, *, now: int | None) -> Trouble | None:
    """Stores that the provider answered a request of lease `token`; returns the trouble that it ended."""
    facts = _facts(tx, token, (), now)
    if not facts.recent:
        return None
    _store(tx, None, 0, 0)
    return None if facts.trouble is None else Trouble(facts.trouble)


def reason_of(fault: Fault) -> str:
    """Why the queue rests or halts, as people read it: short, and without texts and keys (as every fault is)."""
    return f"{fault.error_type}: {fault.message[:REASON_CHARS]}"


def _facts(tx: ManagedTransaction, token: str, ids: Sequence[str], now: int | None) -> ProviderFacts:
    (row,) = rows(tx, statement("control/provider_facts"), token=token, ids=list(ids), now=now)
    return ProviderFacts(**row.data())


def _store(tx: ManagedTransaction, trouble: Trouble | None, rounds: int, failures: int) -> None:
    rows(tx, statement("control/provider_state"), trouble=trouble, rounds=rounds, failures=failures)

"""The queue against a model of it: random histories, the same for both, compared after every step.

The clock is the test's own, so that back-off, locks and retention pass without a sleep. What needs two calls at
once (recovery without its second look, above all) cannot show here: see test_queue_races.py.
"""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from neo4j_queue.control import FAIR_EVERY
from neo4j_queue.database import Database
from neo4j_queue.errors import ErrorCategory
from neo4j_queue.jobs import Completion, Failure, JobRequest, LeasedJob, Outcome, Verdicts
from neo4j_queue.queue import EmbedQueue
from neo4j_queue.settings import Settings
from tests.queue.interleaving import mutated, plant
from tests.queue.model import DAY_MS, NotAllowed, QueueModel, Rules, Wish, allow
from tests.queue.scenery import BEGINNING, MODEL, Clock, fault

HISTORIES = 200
STEPS = 50
# Histories until a planted mutation must have shown.
PATIENCE = 200
RULES = Rules(
    batch_size=2,
    max_attempts=3,
    max_crashes=1,
    lock_ms=6_000,
    start_deadline_ms=3_000,
    base_delay_ms=1_000,
    max_delay_ms=60_000,
    retention_ms=7 * DAY_MS,
    fair_every=FAIR_EVERY,
)
SETTINGS: dict[str, Any] = {
    "embed_batch_size": RULES.batch_size,
    "embed_job_max_retries": RULES.max_attempts,
    "embed_job_max_crashes": RULES.max_crashes,
    "embed_job_lock_duration_ms": RULES.lock_ms,
    "embed_job_start_deadline_ms": RULES.start_deadline_ms,
    "embed_job_heartbeat_interval_ms": 2_000,
    "embed_request_timeout_ms": 2_000,
    "embed_job_retry_base_delay_ms": RULES.base_delay_ms,
    "embed_job_retry_max_delay_ms": RULES.max_delay_ms,
}
# The native path: the other asks the server for its procedures and takes longer than all the rest together. That
# both remove the same is shown in test_cleanup.py.
NATIVE = {"retention/has_apoc": "CYPHER 5\nRETURN false AS found"}

WIPE = """
CYPHER 5
MATCH (c:QueueControl) SET c.halted = false, c.turn = 0 REMOVE c.paused_until
WITH c MATCH (h:EmbedHealth) SET h.verdicts = [], h.state = 'HEALTHY'
WITH c OPTIONAL MATCH (n) WHERE n:EmbedJob OR n:EmbedLease OR n:EmbedArchive
DETACH DELETE n
"""
SNAPSHOT = """
CYPHER 5
MATCH (c:QueueControl)
RETURN coalesce(c.halted, false) AS halted,
  COLLECT { MATCH (j:EmbedJob) RETURN j {.id, key: j.entity_uid, .priority, .available_at, .status, .attempts, .crashes,
    .lease_token, .lock_owner, .lock_until, .started_at, .processed_at, .outcome, .failure_reason, .error_category}
  } AS jobs,
  COLLECT { MATCH (l:EmbedLease) RETURN l {.token, .owner, .left, .lock_until, open: coalesce(l.open, false),
    .started_at, .finished_at} } AS leases,
  COLLECT { MATCH (a:EmbedArchive) RETURN a.id } AS archived
"""

KEYS = st.sampled_from("abcdefg")
# Which lease, the youngest being 0: most messages are about the last few.
PICK = st.sampled_from([0, 0, 0, 1, 1, 2, 2, 3, 5, 9])
CATEGORIES = st.sampled_from(list(ErrorCategory))
# From nothing to "the retention is over"; most are of the size of back-off and locks.
JUMPS = st.sampled_from([1, 1_000, 1_000, 2_000, 2_000, 3_001, 6_001, 6_001, 60_000, 8 * DAY_MS])
given_leases = precondition(lambda self: bool(self.given))


class QueueMachine(RuleBasedStateMachine):
    """One history. The databases and settings are those of the test that runs it."""

    def __init__(self, database: Database, queue_settings: Settings) -> None:
        super().__init__()
        self.database = database
        self.clock = Clock()
        self.queue = EmbedQueue(database, queue_settings, clock=self.clock)
        self.model = QueueModel(RULES, BEGINNING)
        # Every lease ever given: token, owner, and the jobs as they were then.
        self.given: list[tuple[str, str, list[str]]] = []
        self.dead: set[str] = set()
        self.database.autocommit(WIPE)

    @initialize(keys=st.lists(KEYS, min_size=3, max_size=6))
    def begin(self, keys: list[str]) -> None:
        self._enqueue([Wish(key, 1, False) for key in keys])

    # -- into the queue --------------------------------------------------------------------------------------

    @rule(key=KEYS, priority=st.integers(0, 9), force=st.booleans())
    def enqueue(self, key: str, priority: int, force: bool) -> None:
        self._enqueue([Wish(key, priority, force)])

    @rule(wishes=st.lists(st.builds(Wish, KEYS, st.integers(0, 9), st.booleans()), max_size=4))
    def enqueue_several(self, wishes: list[Wish]) -> None:
        self._enqueue(wishes)

    def _enqueue(self, wishes: Sequence[Wish]) -> None:
        requests = [JobRequest(w.key, MODEL, "v", priority=w.priority, force=w.force) for w in wishes]
        answers = self.queue.enqueue(requests)
        self.model.enqueue(wishes, [(answer.id, str(answer.outcome)) for answer in answers])

    # -- lease and start -------------------------------------------------------------------------------------

    @rule(owner=st.sampled_from(["w1", "w2"]), batches=st.integers(1, 3), start=st.booleans())
    def lease(self, owner: str, batches: int, start: bool) -> None:
        result = self.queue.lease(owner, batches=batches)
        self.model.lease(owner, batches, [(lease.token, lease.job_ids) for lease in result.leases])
        for lease in result.leases:
            self.given.append((lease.token, owner, list(lease.job_ids)))
            if start:
                self._start(lease.token, list(lease.job_ids))

    @given_leases
    @rule(pick=PICK)
    def start(self, pick: int) -> None:
        """Of any lease, young or old, begun or ended: messages come late and twice."""
        token, _, ids = self._lease(pick)
        self._start(token, ids)

    def _start(self, token: str, ids: list[str]) -> None:
        start = self.queue.start(token, ids)
        refused, jobs = self.model.start(token, ids)
        allow(start.refused == refused, f"start was {start.refused}, not {refused}")
        allow({job.id for job in start.jobs} == jobs, "other jobs than those that are held")
        for job in start.jobs:
            allow(job.attempts == self.model.jobs[job.id].attempts, "attempts that nobody counted")

    def _lease(self, pick: int) -> tuple[str, str, list[str]]:
        """One of the leases given so far, the youngest first."""
        return self.given[-1 - pick % len(self.given)]

    # -- holders, in time and too late -----------------------------------------------------------------------

    @given_leases
    @rule(picks=st.lists(PICK, min_size=1, max_size=3))
    def heartbeat(self, picks: list[int]) -> None:
        """Of leases whose worker lives."""
        alive = (
            [lease for lease in map(self._lease, picks) if lease[1] not in self.dead] if self.given else []
        )
        beats = {token: ids for token, _, ids in alive}
        allow(self.queue.heartbeat(beats) == self.model.heartbeat(beats), "another heartbeat")

    @given_leases
    @rule(pick=PICK)
    def complete(self, pick: int) -> None:
        token, _, ids = self._lease(pick)
        self._settle(token, completed=ids)

    @given_leases
    @rule(pick=PICK, category=CATEGORIES, whole=st.booleans())
    def fail(self, pick: int, category: ErrorCategory, whole: bool) -> None:
        token, _, ids = self._lease(pick)
        self._settle(token, failed=[(job_id, category) for job_id in (ids if whole else ids[:1])])

    @given_leases
    @rule(pick=PICK)
    def release(self, pick: int) -> None:
        token, _, ids = self._lease(pick)
        self._settle(token, released=ids)

    @given_leases
    @rule(pick=PICK, other=PICK, act=st.sampled_from(["complete", "fail", "release"]))
    def act_on_somebody_elses_jobs(self, pick: int, other: int, act: str) -> None:
        """With one's own token, live or not, on jobs that another lease holds or held."""
        token, ids = self._lease(pick)[0], self._lease(other)[2]
        failed = [(job_id, ErrorCategory.TRANSIENT) for job_id in ids] if act == "fail" else []
        completed, released = (ids if act == name else [] for name in ("complete", "release"))
        self._settle(token, completed=completed, failed=failed, released=released)

    @given_leases
    @rule(pick=PICK, category=CATEGORIES)
    def settle_at_the_end(self, pick: int, category: ErrorCategory) -> None:
        """As the pipeline does: one job done, one failed, and the lease ended whatever became of the rest."""
        token, _, ids = self._lease(pick)
        self._settle(token, completed=ids[:1], failed=[(i, category) for i in ids[1:2]], final=True)

    def _settle(
        self,
        token: str,
        *,
        completed: Sequence[str] = (),
        failed: Sequence[tuple[str, ErrorCategory]] = (),
        released: Sequence[str] = (),
        final: bool = False,
    ) -> None:
        before = self.model.jobs
        verdicts = Verdicts(
            [Completion(job_id, Outcome.EMBEDDED) for job_id in completed],
            [
                Failure(LeasedJob(i, "", MODEL, "v", before[i].attempts if i in before else 0, 3), fault(c))
                for i, c in failed
            ],
            released,
        )
        settlement = self.queue.settle(token, verdicts, final=final)
        expected = self.model.settle(
            token, completed, [(job_id, str(category)) for job_id, category in failed], released, final=final
        )
        changed = settlement.completed | settlement.released | {f.failure.job.id for f in settlement.failed}
        allow(changed == expected, f"changed {changed}, not {expected}")
        given = {*completed, *(job_id for job_id, _ in failed), *released}
        allow(settlement.lost == given - expected, "lost jobs that were not lost")

    # -- faults, time and operators --------------------------------------------------------------------------

    @rule(owner=st.sampled_from(["w1", "w2"]))
    def worker_dies(self, owner: str) -> None:
        """Its heartbeats end for this history; what it had sent before may still arrive."""
        self.dead.add(owner)

    @rule(ms=JUMPS)
    def time_passes(self, ms: int) -> None:
        self.model.now = self.clock.advance(ms)

    @rule()
    def recover(self) -> None:
        recovered = {job.id: job.started for job in self.queue.recover_stale()}
        allow(recovered == self.model.recover(), "another recovery")

    @given_leases
    @rule(pick=PICK)
    def an_operator_takes_jobs_back(self, pick: int) -> None:
        ids = self._lease(pick)[2]
        allow(set(self.queue.release_jobs(ids)) == self.model.release_jobs(ids), "another release")

    @rule(category=st.none() | CATEGORIES)
    def retry_failed(self, category: ErrorCategory | None) -> None:
        name = str(category) if category else None
        allow(self.queue.retry_failed(category=name) == self.model.retry_failed(name), "another retry")

    @rule()
    def cleanup(self) -> None:
        allow(self.queue.cleanup().removed == self.model.cleanup(), "another clean-up")

    @rule(seconds=st.integers(1, 5))
    def pause(self, seconds: int) -> None:
        self.model.paused_until = max(self.model.paused_until, self.clock.now + seconds * 1_000)
        allow(self.queue.pause(seconds, "429") == self.model.paused_until, "another pause")

    @rule()
    def halt(self) -> None:
        allow(self.queue.halt("bad key") is not self.model.halted, "halted twice")
        self.model.halted = True

    @rule()
    def resume(self) -> None:
        self.queue.resume()
        self.model.halted, self.model.paused_until = False, 0

    # -- what always holds -----------------------------------------------------------------------------------

    @invariant()
    def the_database_is_as_the_model_says(self) -> None:
        shown, expected = self._snapshot(), self.model.shown()
        for part, value in expected.items():
            allow(shown[part] == value, f"{part}: {shown[part]} instead of {value}")
        self._check_tokens(shown)

    def _snapshot(self) -> dict[str, Any]:
        (row,) = self.database.autocommit(SNAPSHOT)
        return {
            "jobs": {job["id"]: job for job in row["jobs"]},
            "leases": {lease["token"]: lease for lease in row["leases"]},
            "archived": set(row["archived"]),
            "halted": row["halted"],
        }

    def _check_tokens(self, shown: dict[str, Any]) -> None:
        """Said without the model: a job is held by one token, that of a lease with its owner, or by nobody."""
        for job in shown["jobs"].values():
            held = job["status"] == "processing"
            for name in ("lease_token", "lock_owner", "lock_until"):
                allow((job[name] is not None) is held, f"{name} of a job that is {job['status']}")
            ended = job["status"] in ("completed", "failed")
            allow(
                (job["processed_at"] is not None) is ended, f"processed_at of a job that is {job['status']}"
            )
            if held and job["lease_token"] in shown["leases"]:
                allow(shown["leases"][job["lease_token"]]["owner"] == job["lock_owner"], "another owner")

    def teardown(self) -> None:
        """The counts add up, and enough recoveries and leases end every job."""
        self._check_status()
        self.resume()
        for _ in range(RULES.max_crashes + len(self.model.jobs) + 2):
            self.model.now = self.clock.advance(RULES.max_delay_ms + RULES.lock_ms + 1)
            self.recover()
            self.lease("w1", 10, start=True)
            for token, _, ids in self.given[-10:]:
                self._settle(token, completed=ids, final=True)
            if all(job.status in ("completed", "failed") for job in self.model.jobs.values()):
                break
        self.the_database_is_as_the_model_says()
        unfinished = [job for job in self.model.jobs.values() if job.status in ("pending", "processing")]
        allow(not unfinished, f"never ended: {unfinished}")

    def _check_status(self) -> None:
        status, jobs = self.queue.status(), list(self.model.jobs.values())
        counts = {
            name: sum(job.status == name for job in jobs) for name in ("processing", "completed", "failed")
        }
        for name, count in counts.items():
            allow(getattr(status, name) == count, f"{getattr(status, name)} {name}, not {count}")
        due = len(self.model.due())
        allow(status.pending == due, f"{status.pending} pending, not {due}")
        allow(status.total == len(jobs), "another total")
        allow(status.pending + status.delayed + sum(counts.values()) == len(jobs), "the counts do not add up")


def run_machine(
    database: Database, machine_settings: Settings, *, histories: int, phases: Sequence[Phase] = tuple(Phase)
) -> None:
    """Runs the machine; raises `NotAllowed` where the real queue and the model part."""
    run_state_machine_as_test(  # type: ignore[no-untyped-call, unused-ignore]
        lambda: QueueMachine(database, machine_settings),
        settings=settings(
            max_examples=histories,
            stateful_step_count=STEPS,
            phases=phases,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            print_blob=True,
        ),
    )


def test_the_queue_does_what_the_model_does(
    jobs_db: Database, queue_settings: Callable[..., Settings], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Issue: 200 histories of 50 steps."""
    plant(monkeypatch, NATIVE)
    run_machine(jobs_db, queue_settings(**SETTINGS), histories=HISTORIES)


HELD = "j.status = 'processing' AND j.lease_token = $token"
MUTATIONS: dict[str, tuple[str, str, str]] = {
    "attempts counted at lease": (
        "jobs/lease_grant",
        "'processing',",
        "'processing', j.attempts = j.attempts + 1,",
    ),
    "release of someone else's job": ("jobs/release", HELD, "j.status = 'processing'"),
    "complete with any token": ("jobs/complete", HELD, "j.status = 'processing'"),
    "second start": ("jobs/start", " AND l.started_at IS NULL", ""),
}


@pytest.mark.parametrize("mutation", MUTATIONS)
def test_the_machine_finds_what_is_planted(
    jobs_db: Database, queue_settings: Callable[..., Settings], monkeypatch: pytest.MonkeyPatch, mutation: str
) -> None:
    """The test above can fail."""
    name, old, new = MUTATIONS[mutation]
    plant(monkeypatch, NATIVE | {name: mutated(name, (old, new))})
    with pytest.raises(NotAllowed):
        run_machine(jobs_db, queue_settings(**SETTINGS), histories=PATIENCE, phases=[Phase.generate])

"""Runs random histories on the queue and on its model, and compares the two after every step.

The clock is the test's own, so that back-off, locks and retention pass without a sleep. One call at a time, but for
the recovery that waits for a heartbeat; all other races are in test_queue_races.py.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from neo4j_queue.database import Database
from neo4j_queue.errors import ErrorCategory
from neo4j_queue.jobs import JobRequest, Outcome
from neo4j_queue.queue import EmbedQueue
from neo4j_queue.queue.budget import FAIR_EVERY
from neo4j_queue.queue.leases import Completion, Failure, LeasedJob, RecoveredJob, Verdicts
from neo4j_queue.queue.locks import HEAL_MS
from neo4j_queue.settings import Settings
from tests.queue.interleaving import Race
from tests.queue.machine_steps import ACTS, KEYS, STEP, Step
from tests.queue.model import DAY_MS, QueueModel, Rules, Wish, allow
from tests.queue.scenery import BEGINNING, MODEL, Clock, fault

STEPS = 50
RULES = Rules(
    batch_size=2,
    max_attempts=3,
    max_crashes=1,
    lock_ms=6_000,
    start_deadline_ms=3_000,
    base_delay_ms=1_000,
    max_delay_ms=60_000,
    retention_ms=7 * DAY_MS,
    heal_ms=HEAL_MS,
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
    .lease_token, .lock_owner, .lock_until, .started_at, .processed_at, .outcome, .failure_reason, .error_category,
    .crashed_at}
  } AS jobs,
  COLLECT { MATCH (l:EmbedLease) RETURN l {.token, .owner, .left, .lock_until, open: coalesce(l.open, false),
    .started_at, .finished_at} } AS leases,
  COLLECT { MATCH (a:EmbedArchive) RETURN a.id } AS archived
"""


class QueueMachine(RuleBasedStateMachine):
    """One history. The databases and settings are those of the test that runs it."""

    def __init__(self, database: Database, queue_settings: Settings, seen: Counter[str]) -> None:
        super().__init__()
        # What really happened, over all histories.
        self.seen = seen
        self.database = database
        self.clock = Clock()
        self.queue = EmbedQueue(database, queue_settings, clock=self.clock)
        self.race = Race(database, queue_settings, self.clock)
        self.model = QueueModel(RULES, BEGINNING)
        # Every lease ever given: token, owner, and the jobs as they were then.
        self.given: list[tuple[str, str, list[str]]] = []
        self.dead: set[str] = set()
        self.shown: dict[str, Any] = {}
        self.database.autocommit(WIPE)

    @initialize(keys=st.lists(KEYS, min_size=3, max_size=6))
    def begin(self, keys: list[str]) -> None:
        # In the middle, so that a later wish is lower as often as higher.
        self._enqueue([Wish(key, 5, False) for key in keys])

    @rule(step=STEP)
    def one_step(self, step: Step) -> None:
        getattr(self, step.name)(step)

    # -- into the queue --------------------------------------------------------------------------------------

    def enqueue(self, step: Step) -> None:
        self._enqueue([step.wish])

    def enqueue_several(self, step: Step) -> None:
        self._enqueue([step.wish, step.second_wish, step.wish])

    def _enqueue(self, wishes: Sequence[Wish]) -> None:
        requests = [
            JobRequest(w.key, MODEL, f"v-{w.key}", priority=w.priority, force=w.force) for w in wishes
        ]
        answers = self.queue.enqueue(requests)
        self.model.enqueue(wishes, [(answer.id, str(answer.outcome)) for answer in answers])

    # -- lease and start -------------------------------------------------------------------------------------

    def lease(self, step: Step) -> None:
        self._lease_some(step.owner, max(1, step.number), start=step.mostly)

    def _lease_some(self, owner: str, batches: int, *, start: bool) -> None:
        result = self.queue.lease(owner, batches=batches)
        self.model.lease(owner, batches, [(lease.token, lease.job_ids) for lease in result.leases])
        for lease in result.leases:
            self.given.append((lease.token, owner, list(lease.job_ids)))
            self.seen["leased"] += 1
            if start:
                self._start(lease.token, list(lease.job_ids))

    def start(self, step: Step) -> None:
        """Of any lease, young or old, begun or ended: messages come late and twice."""
        for token, _, ids in self._some_lease(step):
            self._start(token, ids)

    def _start(self, token: str, ids: list[str]) -> None:
        start = self.queue.start(token, ids)
        refused, jobs = self.model.start(token, ids)
        allow(start.refused == refused, f"start was {start.refused}, not {refused}")
        allow({job.id for job in start.jobs} == jobs, "other jobs than those that are held")
        self.seen[start.refused or "started"] += 1
        for job in start.jobs:
            allow(job.attempts == self.model.jobs[job.id].attempts, "attempts that nobody counted")

    def _some_lease(self, step: Step) -> list[tuple[str, str, list[str]]]:
        """One of the leases given so far: mostly one that is open, and a young one; none before the first."""
        alive = [
            lease
            for lease in self.given
            if lease[0] in self.model.leases and self.model.leases[lease[0]].open
        ]
        some = alive if alive and step.mostly else self.given
        return [some[-1 - step.pick % len(some)]] if some else []

    # -- holders, in time and too late -----------------------------------------------------------------------

    def heartbeat(self, step: Step) -> None:
        self._beat(self._alive(step))

    def _alive(self, step: Step) -> dict[str, list[str]]:
        """The last leases whose worker lives, with their jobs."""
        alive = [lease for lease in self.given[-1 - step.pick :] if lease[1] not in self.dead]
        return {token: ids for token, _, ids in alive}

    def _beat(self, beats: dict[str, list[str]]) -> None:
        self._beaten(beats, self.queue.heartbeat(beats))

    def _beaten(self, beats: dict[str, list[str]], beaten: Mapping[str, int]) -> None:
        allow(beaten == self.model.heartbeat(beats), "another heartbeat")
        self.seen["heartbeat"] += len(beaten)

    def complete(self, step: Step) -> None:
        for token, _, ids in self._some_lease(step):
            self._settle(token, completed=ids)

    def fail(self, step: Step) -> None:
        for token, _, ids in self._some_lease(step):
            failed = ids if step.maybe else ids[:1]
            self._settle(token, failed=[(job_id, step.category) for job_id in failed])

    def release(self, step: Step) -> None:
        for token, _, ids in self._some_lease(step):
            self._settle(token, released=ids)

    def speak_with_another_token(self, step: Step) -> None:
        """Of a job that somebody holds, with the token of another lease, live or long ended."""
        running = self.model.running()
        if not running or len(self.given) < 2:
            return
        job = running[step.other % len(running)]
        others = [token for token, _, _ in self.given if token != job.lease_token]
        begun = [token for token in others if self.model.is_begun(token)]
        some = begun if begun and step.mostly else others
        token, ids = some[-1 - step.pick % len(some)], [job.id]
        before = self.shown["jobs"][job.id]
        act = ACTS[step.number]
        if act == "complete":
            self._settle(token, completed=ids)
        elif act == "fail":
            self._settle(token, failed=[(job.id, ErrorCategory.TRANSIENT)])
        elif act == "release":
            self._settle(token, released=ids)
        else:
            self._beat({token: ids})
        allow(self._snapshot()["jobs"][job.id] == before, "another token changed a job")
        self.seen["other token"] += 1

    def settle_at_the_end(self, step: Step) -> None:
        """As the pipeline does: one job done, one failed, and the lease ended whatever became of the rest."""
        for token, _, ids in self._some_lease(step):
            failed = [(job_id, step.category) for job_id in ids[1:2]]
            self._settle(token, completed=ids[:1], failed=failed, final=True)

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
        open_before = token in self.model.leases and self.model.leases[token].open
        settlement = self.queue.settle(token, verdicts, final=final)
        expected = self.model.settle(
            token, completed, [(job_id, str(category)) for job_id, category in failed], released, final=final
        )
        changed = settlement.completed | settlement.released | {f.failure.job.id for f in settlement.failed}
        allow(changed == expected, f"changed {changed}, not {expected}")
        self.seen.update(completed=len(settlement.completed), released=len(settlement.released))
        self.seen.update("failed" if stored.reason else "failed once" for stored in settlement.failed)
        ended = open_before and not self.model.leases[token].open
        allow(settlement.more_due == (bool(self.model.due()) if ended else None), "more is wanted, or not")
        given = {*completed, *(job_id for job_id, _ in failed), *released}
        allow(settlement.lost == given - expected, "lost jobs that were not lost")

    # -- faults, time and operators --------------------------------------------------------------------------

    def worker_dies(self, step: Step) -> None:
        """Its heartbeats end for this history; what it had sent before may still arrive."""
        self.dead.add(step.owner)

    def time_passes(self, step: Step) -> None:
        self.model.now = self.clock.advance(step.ms)

    def recover(self, _: Step) -> None:
        self._recover()

    def recover_beside_a_heartbeat(self, step: Step) -> None:
        """A recovery that has found locks run out, and waits for a heartbeat that comes at the last moment."""
        if step.owner not in self.dead:
            self._lease_some(step.owner, 1, start=True)
        beats = self._alive(step)
        if step.mostly:
            self.model.now = self.clock.advance(RULES.lock_ms + 1)
        beaten: dict[str, int] = {}
        recovered = self.race(
            lambda queue: beaten.update(queue.heartbeat(beats)), EmbedQueue.recover_stale, waits=None
        )
        self._beaten(beats, beaten)
        self._recovered(recovered)

    def _recover(self) -> None:
        self._recovered(self.queue.recover_stale())

    def _recovered(self, recovered: Sequence[RecoveredJob]) -> None:
        allow({job.id: job.started for job in recovered} == self.model.recover(), "another recovery")
        self.seen.update("worker lost" if job.failed else "recovered" for job in recovered)

    def take_back(self, step: Step) -> None:
        """An operator, from whoever holds the jobs."""
        for _, _, ids in self._some_lease(step):
            taken = set(self.queue.release_jobs(ids))
            allow(taken == self.model.release_jobs(ids), "another release")
            self.seen["taken back"] += len(taken)

    def retry_failed(self, step: Step) -> None:
        name = str(step.category) if step.maybe else None
        retried = self.queue.retry_failed(category=name)
        allow(retried == self.model.retry_failed(name), "another retry")
        self.seen["retried"] += retried

    def cleanup(self, step: Step) -> None:
        if step.maybe:
            self.model.now = self.clock.advance(RULES.retention_ms + 1)
        removed = self.queue.cleanup().removed
        allow(removed == self.model.cleanup(), "another clean-up")
        self.seen["removed"] += removed

    def pause(self, step: Step) -> None:
        self._lease_some(step.owner, 1, start=False)
        seconds = step.number + 1
        self.model.paused_until = max(self.model.paused_until, self.clock.now + seconds * 1_000)
        allow(self.queue.pause(seconds, "429") == self.model.paused_until, "another pause")
        self._try_to_work()

    def halt(self, step: Step) -> None:
        self._lease_some(step.owner, 1, start=False)
        allow(self.queue.halt("bad key") is not self.model.halted, "halted twice")
        self.model.halted = True
        self._try_to_work()
        self._resume()

    def _try_to_work(self) -> None:
        """What somebody does who has not heard of it."""
        self._lease_some("w1", 1, start=False)
        waiting = [lease for lease in self.model.leases.values() if lease.open and lease.started_at is None]
        for lease in waiting[:1]:
            self._start(lease.token, [])
        self._recover()

    def _resume(self) -> None:
        self.queue.resume()
        self.model.halted, self.model.paused_until = False, 0

    # -- what always holds -----------------------------------------------------------------------------------

    @invariant()
    def the_database_is_as_the_model_says(self) -> None:
        self.shown = shown = self._snapshot()
        expected = self.model.shown()
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
        self._resume()
        for _ in range(RULES.max_crashes + len(self.model.jobs) + 2):
            self.model.now = self.clock.advance(RULES.max_delay_ms + RULES.lock_ms + 1)
            self._recover()
            self._lease_some("w1", 10, start=True)
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
) -> Counter[str]:
    """Runs the machine and returns what happened; raises `NotAllowed` where the real queue and the model part."""
    seen: Counter[str] = Counter()
    run_state_machine_as_test(  # type: ignore[no-untyped-call, unused-ignore]
        lambda: QueueMachine(database, machine_settings, seen),
        settings=settings(
            max_examples=histories,
            stateful_step_count=STEPS,
            phases=phases,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            print_blob=True,
        ),
    )
    return seen

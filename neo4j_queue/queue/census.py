"""The census: which embed workers are alive, how much they can run at once, and with which settings.

`tasks/census.py` asks them; this module keeps their answers in the jobs database.
"""

from collections.abc import Iterable, Sequence

from neo4j_queue.cypher import statement
from neo4j_queue.database import Database
from neo4j_queue.queue.clock import Clock
from neo4j_queue.queue.leases import Silent, Worker

# A worker that has been silent for this many heartbeats offers no slot (one late or lost answer is forgiven).
SILENT_HEARTBEATS = 2.5
# One that did not answer to the last heartbeat, and some time for the way, is said to be silent.
MISSED_HEARTBEATS = 1.25
# A dead worker is forgotten after this many heartbeats; until then each heartbeat knows how long it has been silent.
FORGET_HEARTBEATS = 30


class Census:
    """The embed workers of one queue. `heartbeat_ms` is the pace at which they are asked, in ms."""

    def __init__(self, database: Database, heartbeat_ms: int, clock: Clock) -> None:
        self._database = database
        self.heartbeat_ms = heartbeat_ms
        self._now = clock

    @property
    def worker_ttl_ms(self) -> int:
        """Silence after which a worker's slots no longer count, in ms."""
        return round(self.heartbeat_ms * SILENT_HEARTBEATS)

    def record(self, workers: Sequence[Worker]) -> dict[str, int]:
        """Writes down the workers that answered; returns the known ones that did not, with their silence in ms."""
        found = self._database.write(
            statement("jobs/record_census"),
            workers=[
                {"name": w.name, "slots": w.slots, "leases": w.leases, "fingerprint": w.fingerprint}
                for w in sorted(workers, key=lambda worker: worker.name)
            ],
            forget_ms=self.heartbeat_ms * FORGET_HEARTBEATS,
            now=self._now(),
        )
        return {row["name"]: int(row["silent_ms"]) for row in found}

    def may_ask_all(self, every_s: float) -> bool:
        """True about once in `every_s` seconds over all processes: then ask all workers, not only the known ones."""
        every_ms = round(every_s * 1000)
        return bool(self._database.write(statement("jobs/census_of_all"), every_ms=every_ms, now=self._now()))

    def may_tell_disagreement(self, parts: str, every_s: float) -> bool:
        """True if the log is to say that workers disagree in these parts: at once, then about every `every_s` seconds
        over all processes."""
        found = self._database.write(
            statement("jobs/tell_disagreement"),
            parts=parts,
            every_ms=round(every_s * 1000),
            now=self._now(),
        )
        return bool(found)

    def time(self) -> int:
        """The server's time, epoch ms: to be read before the workers are asked."""
        return int(self._database.read(statement("jobs/time"), now=self._now())[0]["now"])

    def may_tell_silence(self, names: Iterable[str]) -> dict[str, int]:
        """Those of these silent workers that the log is to name now, with their silence in ms: each when its silence
        begins, and again whenever it has doubled."""
        found = self._database.write(statement("jobs/tell_silence"), names=sorted(names), now=self._now())
        return {row["name"]: int(row["silent_ms"]) for row in found}

    def forget(self, name: str) -> None:
        """Takes out a worker that said good-bye: its slots no longer count."""
        self._database.write(statement("jobs/forget_worker"), name=name)

    def workers(self) -> list[Worker]:
        """The embed workers that answered lately, with the leases that they run now."""
        found = self._database.read(
            statement("jobs/workers"), worker_ttl_ms=self.worker_ttl_ms, now=self._now()
        )
        return [Worker(**row.data()) for row in found]

    def silent(self) -> list[Silent]:
        """The workers that did not answer to the last heartbeat: dead, or cut off. The longest silent first."""
        missed_ms = round(self.heartbeat_ms * MISSED_HEARTBEATS)
        found = self._database.read(statement("jobs/silent_workers"), missed_ms=missed_ms, now=self._now())
        return [Silent(**row.data()) for row in found]

"""The attempts of a job that failed, and its lost workers: the last of them stand on the job itself.

A property of a node can be a list of texts, and no list of maps. So each attempt is one text: when (epoch ms), the
worker, and what it met (JSON), with a tab between them. The database knows time and worker best: the statement that
counts the attempt writes the entry. A job that never failed has none, and its settlement costs nothing more.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from neo4j_queue.errors import Fault
from neo4j_queue.times import iso

# Three attempts and three lost workers are a whole life at the default settings: ten show the life before too.
KEPT = 10
# Of a message; the last one stands on the job as a whole. Ten entries are 3 kB at most.
MESSAGE_CHARS = 240
# What a lost worker leaves: nothing but that it is gone.
LOST = "WorkerLost"


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt that failed. `at`: epoch ms, server clock; `worker`: which gave the verdict, or was lost.

    `error_type` is the class of the error, or `WorkerLost`; that one counts among the crashes, and not as an attempt.
    """

    at: int
    worker: str | None
    error_type: str | None
    error_category: str | None = None
    error_status: int | None = None
    error: str | None = None

    def as_json(self) -> dict[str, Any]:
        """For programs: its time as ISO 8601."""
        return {**asdict(self), "at": iso(self.at)}


def met(fault: Fault) -> str:
    """What an attempt met, as it is written on the job."""
    return _dumped(
        error_type=fault.error_type,
        error_category=str(fault.category),
        error_status=fault.status,
        error=fault.message[:MESSAGE_CHARS],
    )


def _dumped(**values: object) -> str:
    return json.dumps({name: value for name, value in values.items() if value is not None})


# What a crash met.
CRASH = _dumped(error_type=LOST)


def read(written: Sequence[str]) -> list[Attempt]:
    """The attempts of a job, the first first. What a person or another version wrote there is passed over."""
    found = []
    for entry in written:
        try:
            at, worker, met_there = entry.split("\t", 2)
            found.append(Attempt(int(at), worker or None, **{"error_type": None, **json.loads(met_there)}))
        except (ValueError, TypeError):
            continue
    return found

"""Which deployment this process belongs to: the one of its jobs database, by the id of its store.

Two deployments on one Redis database take each other's messages. What belongs to another one is passed on, and said.
"""

import hashlib
import time
from typing import Any

from neo4j_queue.cypher import statement
from neo4j_queue.database import Database
from neo4j_queue.log import get_logger
from tasks.app import app
from tasks.routes import EMBED_BATCH

HEADER, HOPS = "deployment", "hops"
# A foreign batch is passed on so often, with a rest in between: six seconds, in which one of its own workers is likely
# to take it. After that its start deadline brings it back.
MOST_HOPS = 30
REST_S = 0.2
ADVICE = "give each deployment a Redis database of its own: another number at the end of CELERY_BROKER_URL"
# Of a hash; two deployments that agree in them by chance are one in four thousand million.
DIGITS = 8

log = get_logger()
_mark: str | None = None


def of(jobs: Database) -> str:
    """The mark of the deployment that has this jobs database."""
    store = str(jobs.read(statement("server/store"))[0]["id"])
    return hashlib.sha256(store.encode()).hexdigest()[:DIGITS]


def learn(jobs: Database) -> None:
    """Before a worker forks: what it belongs to."""
    global _mark
    _mark = of(jobs)


def mark() -> str | None:
    """That of this worker; None in a process that is none."""
    return _mark


def headers() -> dict[str, str]:
    """Of each message that only this deployment can use."""
    return {} if _mark is None else {HEADER: _mark}


def pass_on(headers: dict[str, Any] | None, token: str, job_ids: list[str]) -> bool:
    """True if a batch is another deployment's; it is sent again, so that one of its own workers may take it."""
    theirs = (headers or {}).get(HEADER)
    if theirs is None or _mark is None or theirs == _mark:
        return False
    hops = int((headers or {}).get(HOPS, 0))
    if hops == 0:
        log.warning("foreign_message_passed_on", lease_token=token, deployment=theirs, advice=ADVICE)
    if hops < MOST_HOPS:
        time.sleep(REST_S)
        app.send_task(
            EMBED_BATCH, args=(token, job_ids), headers={HEADER: theirs, HOPS: hops + 1}, retry=False
        )
    return True

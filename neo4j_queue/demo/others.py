"""Refuses the demo on servers that others work on: its workers would end the jobs of another graph without a vector."""

from neo4j_queue.checks import fingerprint
from neo4j_queue.cypher import statement
from neo4j_queue.demo.processes import WORKER_PREFIX
from neo4j_queue.errors import TemporarilyUnavailable
from neo4j_queue.graph import EntityGraph
from neo4j_queue.graph.keys import lists_of
from neo4j_queue.jobs import Status
from neo4j_queue.queue import EmbedQueue
from neo4j_queue.queue.leases import Worker
from neo4j_queue.settings import Settings

# Failed ones too: the demo tries them again.
LOOKED_AT = (Status.PENDING, Status.PROCESSING, Status.FAILED)
# Jobs of each state that are looked at, in a fraction of a second. The demo has 5,800 entities: where so many jobs all
# belong to entities of its graph, another set-up has put them there.
MOST = 20_000
# A worker with the default heartbeat is heard of every two minutes, and counts as dead after two and a half of them.
SILENT_MS = 300_000

OWN_SERVICES = (
    "give the demo services of its own: --directory with --graph-port, --jobs-port and --redis-port"
)


class ServicesInUse(TemporarilyUnavailable):
    """Another set-up works on the demo's servers."""


def refuse_others(queue: EmbedQueue, graph: EntityGraph, settings: Settings) -> None:
    """Raises `ServicesInUse` when jobs of another graph stand in the queue, or workers with other settings live.

    What an interrupted run of the demo left is its own: the entities of its jobs are in its graph, since they are
    written first. Both databases must be prepared.
    """
    for status in LOOKED_AT:
        stranger = _stranger(queue, graph, status)
        if stranger is not None:
            uri = settings.embed_job_database_uri
            raise ServicesInUse(
                f"the jobs database {uri} holds {status} jobs of another graph, such as that of {stranger!r}, and the "
                f"demo's workers would end them without a vector: {OWN_SERVICES}"
            )
    line = fingerprint.disagreement(_workers(queue), fingerprint.fingerprint(settings, graph.database))
    if line is not None:
        raise ServicesInUse(f"another set-up works on the demo's servers: {line}, or {OWN_SERVICES}")


def _stranger(queue: EmbedQueue, graph: EntityGraph, status: Status) -> str | None:
    """An entity that such a job is for and that the graph has not."""
    found = queue.database.read(statement("jobs/entities"), status=status.value, most=MOST)
    uids = [row["entity_uid"] for row in found]
    absent = statement("graph/absent", label=graph.label, key=graph.key)
    rows = graph.database.read(absent, names=lists_of(uids), most=1)
    return str(rows[0]["uid"]) if rows else None


def _workers(queue: EmbedQueue) -> list[Worker]:
    """The embed workers that may live. Those of a demo have a short heartbeat, so that one that was killed a minute ago
    does not count; others count until the longest usual heartbeat is over."""
    found = queue.database.read(statement("jobs/workers"), worker_ttl_ms=SILENT_MS, now=None)
    workers = [Worker(**row.data()) for row in found]
    return [
        worker
        for worker in workers
        if worker.seen_ms_ago < queue.census.worker_ttl_ms or not worker.name.startswith(WORKER_PREFIX)
    ]

"""The tools that show and steer the queue."""

from functools import partial
from typing import Any

from neo4j.exceptions import DriverError, Neo4jError

from neo4j_queue.checks import health
from neo4j_queue.errors import TemporarilyUnavailable
from neo4j_queue.errors.explain import explain
from neo4j_queue.mcp_server import answers, arguments
from neo4j_queue.mcp_server.backend import Backend
from neo4j_queue.mcp_server.calls import ANSWER_WITHIN_S, GRAPH, JOBS, Call
from neo4j_queue.mcp_server.tool import Tool
from neo4j_queue.queue import outlook
from neo4j_queue.reconcile import status
from neo4j_queue.reconcile.coverage import KnownCoverage, known_coverage

# The coverage of a small graph is counted in a tenth of a second; without it the answer is still one.
COVERAGE_WITHIN_S = 5.0
# More than a call waits: when the jobs database is silent, the call says so itself.
HEALTH_WITHIN_S = ANSWER_WITHIN_S + 5.0


def queue_status(backend: Backend, _given: arguments.NoArguments, call: Call) -> dict[str, Any]:
    """The queue in numbers, as `neo4j-queue status --json` gives it."""
    queue = backend.queue
    call.of(JOBS, backend.refuse_old_schema)
    state = call.of(JOBS, queue.status)
    ahead = call.of(JOBS, outlook.read, queue, state)
    known, why_not = _coverage(backend, state.unfinished)
    found = status.answer(state, ahead, known)
    return found if why_not is None else {**found, "coverage_unknown": why_not}


def _coverage(backend: Backend, unfinished: int) -> tuple[KnownCoverage | None, str | None]:
    """None, and why, while the graph does not answer: the queue is of interest just then."""
    try:
        known = partial(known_coverage, backend.graph, backend.queue, unfinished)
        return backend.in_time(known, COVERAGE_WITHIN_S), None
    except TemporarilyUnavailable as error:
        return None, str(error)
    except (Neo4jError, DriverError) as error:
        return None, f"{GRAPH} does not answer: {explain(error)}"


def queue_health(backend: Backend, _given: arguments.NoArguments, call: Call) -> dict[str, Any]:
    """How embedding fares, as `neo4j-queue health --json` gives it."""
    call.of(JOBS, backend.refuse_old_schema)
    report = call.of(JOBS, backend.checkup.report, HEALTH_WITHIN_S)
    if report.refusal is not None:
        raise report.refusal
    return health.answer(report)


def retry_failed(backend: Backend, given: arguments.RetryFailed, call: Call) -> dict[str, Any]:
    """Queues failed jobs again as if new."""
    call.of(JOBS, backend.refuse_old_schema)
    wanted = (given.category, given.reason, given.status, given.limit)
    retried = call.of(JOBS, backend.queue.retry_failed, *wanted)
    backend.broker.nudge()
    return {"retried": retried}


TOOLS = (
    Tool(
        "queue_status",
        "Queue status",
        "How many embedding jobs wait, run, are done or failed, which workers are there, what the queue waits for and "
        "when it will be done, and how many entities have a fresh vector.",
        arguments.NoArguments,
        answers.QueueStatus,
        queue_status,
    ),
    Tool(
        "queue_health",
        "Queue health",
        "Whether embedding works: HEALTHY, DEGRADED, CRITICAL or UNAVAILABLE, with the reasons and what helps.",
        arguments.NoArguments,
        answers.QueueHealth,
        queue_health,
    ),
    Tool(
        "retry_failed",
        "Retry failed jobs",
        "Queue failed embedding jobs again as if new: all of them, or those of a category (TRANSIENT, PERMANENT, "
        "CRITICAL), of a reason (permanent_error, max_retries_exceeded, worker_lost) or of an HTTP status.",
        arguments.RetryFailed,
        answers.Retried,
        retry_failed,
        writes=True,
    ),
)

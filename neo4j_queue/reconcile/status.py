"""The state of queue and graph as the answer that programs rely on, by command line and by MCP."""

from dataclasses import asdict
from typing import Any

from neo4j_queue.queue.leases import QueueStatus
from neo4j_queue.queue.outlook import Outlook
from neo4j_queue.reconcile.coverage import KnownCoverage
from neo4j_queue.times import iso


def answer(state: QueueStatus, outlook: Outlook, coverage: KnownCoverage | None) -> dict[str, Any]:
    """The answer of `status` (docs/reference/cli.md); names and order are fixed."""
    return {
        "pending": state.pending,
        "delayed": state.delayed,
        "processing": state.processing,
        "started": state.started,
        "completed": state.completed,
        "failed": state.failed,
        "total": state.total,
        "oldest_pending_seconds": state.oldest_pending_seconds,
        "halted": state.halted,
        "paused_until": iso(state.paused_until),
        "workers": [asdict(worker) for worker in state.workers],
        "coverage": coverage
        and {
            **asdict(coverage),
            "as_of": iso(coverage.as_of),
            "compared_at": iso(coverage.compared_at),
            "oldest_stale_at": iso(coverage.oldest_stale_at),
        },
        "waiting_for": outlook.waiting_for,
        "done_at": iso(outlook.done_at),
        "limits": {
            "used": outlook.used,
            "limit": outlook.limit,
            "interval_seconds": outlook.interval_ms / 1000,
            "in_force": [
                {
                    "of": window.what,
                    "used": window.used,
                    "limit": window.limit,
                    "interval_seconds": window.per_ms / 1000,
                    "named_by_provider": window.of_provider,
                }
                for window in outlook.windows
            ],
        },
        "silent_workers": silent_workers(state),
    }


def silent_workers(state: QueueStatus) -> list[dict[str, Any]]:
    """The workers that missed their last heartbeat, for programs."""
    return [
        {"name": each.name, "silent_since": iso(state.now - each.silent_ms), "leases": each.leases}
        for each in state.silent
    ]

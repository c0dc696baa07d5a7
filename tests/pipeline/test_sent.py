"""A request counts for the rate limit from when it was sent."""

import socket
import time
from typing import Any

import pytest

from tests.pipeline.conftest import Bench

LOOKUP_S = 0.8
# What the provider may take to note a request that has arrived.
NOTED_MS = 200


def requested_ms_ago(bench: Bench) -> int:
    """How long before its end the lease's last request was sent, as booked."""
    (row,) = bench.queue.database.read(
        "MATCH (l:EmbedLease) RETURN l.finished_at - l.requested_at AS ago ORDER BY l.finished_at DESC LIMIT 1"
    )
    return int(row["ago"])


def test_a_slow_connection_is_no_part_of_the_window(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name server takes its time: the provider counts the request when it arrives, and so does the window. Guard:
    `last_sent` in `ProviderCall`; counted from the begin of the call, the window would end 0.8 s before the provider's.
    """
    look_up = socket.getaddrinfo

    def slow(*args: Any, **named: Any) -> Any:
        time.sleep(LOOKUP_S)
        return look_up(*args, **named)

    monkeypatch.setattr(socket, "getaddrinfo", slow)
    bench.create("a")
    began = time.monotonic()
    bench.step()
    arrived = bench.provider.journal[-1].at
    took_ms = (time.monotonic() - arrived) * 1000
    assert arrived - began > LOOKUP_S, "the connection was not slow: the test means nothing"
    assert requested_ms_ago(bench) < took_ms + NOTED_MS

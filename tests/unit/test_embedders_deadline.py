"""The total deadline lies below the HTTP client, whatever transport a request takes."""

import time
from importlib.metadata import version

import httpcore2
import pytest

from neo4j_queue.embedders.deadline import _Backend, http_client, total_deadline
from neo4j_queue.mock_provider import Reply
from tests.provider import ProviderServer

# The tolerance of the contract, and little enough for a deadline per read to be found out.
DEADLINE_S = 1.0
TOLERANCE_S = 2.0


def test_the_client_has_the_private_attributes_that_the_deadline_replaces(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Fails when one is renamed, for the client's own transport and for that of a proxy."""
    moved = (
        f"httpx2 {version('httpx2')} or httpcore2 {version('httpcore2')} moved what embedders/deadline.py "
        "replaces, and no request has a total deadline any more. Adapt that file, then the upper bounds of both in "
        "pyproject.toml."
    )
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    try:
        with http_client(1.0) as client:
            transports = [client._transport, *client._mounts.values()]
            backends = [transport._pool._network_backend for transport in transports]
    except (AttributeError, TypeError) as error:
        pytest.fail(f"{moved} ({error})")
    assert len(transports) == 2, moved
    for backend in backends:
        assert isinstance(backend, _Backend), moved
        assert isinstance(backend._inner, httpcore2.NetworkBackend), moved


def test_the_deadline_is_below_every_transport_of_the_client(monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind a proxy of the environment the deadline holds as well."""
    with ProviderServer() as proxy:
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{proxy.port}")
        monkeypatch.setenv("no_proxy", "")
        proxy.reply_always(Reply(silent=True))
        with http_client(30.0) as client, total_deadline(DEADLINE_S):
            started = time.monotonic()
            with pytest.raises(Exception, match=r"deadline|timed out"):
                client.post("http://provider.invalid/v1/embeddings", json={"input": "text"})
            took = time.monotonic() - started

    assert took < DEADLINE_S + TOLERANCE_S

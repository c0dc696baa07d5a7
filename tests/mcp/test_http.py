"""Who may call over HTTP: the token, the names in Host and Origin, and where it listens."""

import json
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

import httpx2
import pytest

from neo4j_queue.local_services import LocalServices
from tests.celery_processes import ROOT
from tests.freezing import frozen
from tests.mcp.conftest import (
    LEGACY,
    MODERN,
    HttpServer,
    World,
    connected,
    connected_with,
    reason,
    serving,
)
from tests.serving import COMMAND, READY_S

TOKEN = "a-token-of-enough-characters"
TEMPORARY, CONFIGURATION = 75, 78
HELLO: dict[str, Any] = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}
ACCEPT = {"Accept": "application/json, text/event-stream"}


def post(url: str, headers: dict[str, str] | None = None, body: bytes | None = None) -> httpx2.Response:
    content = json.dumps(HELLO).encode() if body is None else body
    sent = {"Content-Type": "application/json", **ACCEPT, **(headers or {})}
    return httpx2.post(url, content=content, headers=sent, timeout=30)


def ended(world: World, *arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    """A server that refuses to start."""
    return subprocess.run(
        [*COMMAND, "mcp", "--http", *arguments],
        env={**world.environment, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        timeout=READY_S,
        check=False,
    )


def test_by_default_it_listens_on_the_loopback_address_alone(http_server: HttpServer) -> None:
    assert http_server.url.startswith("http://127.0.0.1:")
    assert http_server.url.endswith("/mcp")
    assert post(http_server.url).status_code == 200


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "no-such-name.invalid", ""])
def test_elsewhere_it_does_not_listen_without_a_token(world: World, host: str) -> None:
    done = ended(world, "--host", host)
    assert (done.returncode, done.stdout) == (CONFIGURATION, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("neo4j-queue: MCP_TOKEN is missing")


def test_a_port_in_use_is_said_in_one_line(world: World, http_server: HttpServer) -> None:
    done = ended(world, "--port", http_server.url.rpartition(":")[2].removesuffix("/mcp"))
    assert (done.returncode, done.stdout) == (TEMPORARY, "")
    assert "cannot listen on 127.0.0.1" in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.fixture(scope="module")
def guarded(server_environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A server on all addresses, whose token stands in a file."""
    directory = tmp_path_factory.mktemp("guarded")
    secret = directory / "token"
    secret.write_text(f"{TOKEN}\n", encoding="utf-8")
    environment = {**server_environment, "MCP_TOKEN_FILE": str(secret), "LOG_LEVEL": "DEBUG"}
    with serving(environment, directory / "logs", "--host", "0.0.0.0") as server:
        yield server


@pytest.mark.parametrize("mode", [MODERN, LEGACY])
def test_the_token_of_a_file_opens_a_server_on_all_addresses(
    guarded: HttpServer, world: World, mode: str
) -> None:
    url = guarded.url.replace("0.0.0.0", "127.0.0.1")
    with connected_with(url, {"Authorization": f"Bearer {TOKEN}"}, mode) as agent:
        assert agent.answer("queue_status")["total"] == 0


@pytest.mark.parametrize(
    "shown",
    [
        *(
            None,
            "",
            "Bearer",
            f"Bearer {TOKEN}x",
            f"Bearer {TOKEN[:-1]}",
            f"Bearer {TOKEN.upper()}",
        ),
        *(f"Basic {TOKEN}", TOKEN, f"Token {TOKEN}", "Bearer \u00e9", "Bearer null"),
    ],
    ids=repr,
)
def test_without_the_right_token_nothing_is_answered(guarded: HttpServer, shown: str | None) -> None:
    url = guarded.url.replace("0.0.0.0", "127.0.0.1")
    headers = {} if shown is None else {"Authorization": shown}
    encoded = {name: value.encode("latin-1") for name, value in headers.items()}
    answer = post(url, encoded)  # type: ignore[arg-type]
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"].startswith("Bearer")
    assert answer.json()["error"] == "invalid_token"
    for method in ("GET", "DELETE", "PUT"):
        assert httpx2.request(method, url, headers=encoded, timeout=30).status_code == 401


def test_the_token_and_guesses_at_it_stand_in_no_log(guarded: HttpServer, world: World) -> None:
    url = guarded.url.replace("0.0.0.0", "127.0.0.1")
    post(url, {"Authorization": f"Bearer {TOKEN}"})
    post(url, {"Authorization": "Bearer a-guess-at-the-token"})
    log = guarded.log.read_text(encoding="utf-8")
    assert "serving MCP" in log
    assert TOKEN not in log
    assert "a-guess" not in log


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        *(("https://evil.example", 403), ("null", 403), ("http://127.0.0.1.evil.example", 403)),
        *(("http://localhost.evil.example:80", 403), ("file://", 403), ("http://user@127.0.0.1", 403)),
        *(
            ("chrome-extension://abc", 403),
            ("", 403),
            ("http://localhost:6274", 200),
            ("http://[::1]:1", 200),
        ),
    ],
)
def test_web_pages_of_other_sites_are_refused(http_server: HttpServer, origin: str, status: int) -> None:
    assert post(http_server.url, {"Origin": origin}).status_code == status


@pytest.mark.parametrize(
    ("host", "status"),
    [
        *(("evil.example", 421), ("evil.example:3002", 421), ("127.0.0.1.evil.example", 421)),
        *(("127.0.0.1:1@evil.example", 421), ("localhost:x", 421), ("10.0.0.1", 421)),
        *(("localhost", 200), ("LOCALHOST:99", 200), ("127.0.0.1", 200), ("[::1]:3002", 200)),
    ],
)
def test_a_name_that_leads_here_by_dns_rebinding_is_refused(
    http_server: HttpServer, host: str, status: int
) -> None:
    assert post(http_server.url, {"Host": host}).status_code == status


def test_names_and_pages_that_are_allowed_may_come(world: World, tmp_path: Path) -> None:
    names = ("--allow-host", "graph.example", "--allow-origin", "https://app.example/")
    environment = {**world.environment, "MCP_TOKEN": TOKEN}
    with serving(environment, tmp_path, "--host", "0.0.0.0", "--path", "/agents", *names) as server:
        url = server.url.replace("0.0.0.0", "127.0.0.1")
        assert url.endswith("/agents")
        token = {"Authorization": f"Bearer {TOKEN}"}
        assert (
            post(url, {**token, "Host": "graph.example", "Origin": "https://app.example"}).status_code == 200
        )
        assert post(url, {**token, "Host": "other.example"}).status_code == 421
        assert post(url, {**token, "Origin": "https://other.example"}).status_code == 403
        asked = {"Origin": "https://app.example", "Access-Control-Request-Method": "POST"}
        preflight = httpx2.options(url, headers=asked, timeout=30)
        assert preflight.headers["access-control-allow-origin"] == "https://app.example"


@pytest.mark.parametrize("host", ["::1", "localhost"])
def test_other_names_of_the_loopback_address_need_no_token(world: World, tmp_path: Path, host: str) -> None:
    with serving(world.environment, tmp_path, "--host", host) as server:
        assert (f"[{host}]" if ":" in host else host) in server.url
        with connected(server.url) as agent:
            assert agent.answer("queue_status")["total"] == 0


def test_a_client_goes_on_when_the_server_was_started_anew(world: World, tmp_path: Path) -> None:
    """Failed with sessions kept in the server: the client's was unknown, and each further call an error."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    for mode in (MODERN, LEGACY):
        with serving(world.environment, tmp_path / mode, "--port", port) as first:
            portal = connected(first.url, mode)
            agent = portal.__enter__()
            assert agent.answer("queue_status")["total"] == 0
        with serving(world.environment, tmp_path / mode, "--port", port):
            assert agent.answer("queue_status")["total"] == 0
            portal.__exit__(None, None, None)


def test_bodies_that_are_no_requests_are_refused_and_the_server_goes_on(http_server: HttpServer) -> None:
    assert post(http_server.url, body=b"no json").status_code == 400
    assert post(http_server.url, body=b"").status_code == 400
    assert post(http_server.url, {"Content-Type": "text/plain"}).status_code in (400, 415)
    assert post(http_server.url, body=b" " * 5_000_000).status_code == 413
    assert httpx2.get(http_server.url.replace("/mcp", "/"), timeout=30).status_code == 404
    assert post(http_server.url).status_code == 200


def test_a_frozen_database_does_not_keep_it_from_ending(
    world: World, tmp_path: Path, services: LocalServices
) -> None:
    """Guard: the daemon threads of `Calls`; with others the interpreter waits until the driver gives up. Failed without
    `Calls.end`: the caller got no answer, and the log a stack trace."""
    with serving(world.environment, tmp_path) as server, connected(server.url) as agent:
        assert agent.answer("create_entities", entities=[{"name": "Ada"}])["entities"]
        with frozen(services.graph.pid):
            waiting = agent.begin("delete_entities", entityNames=["Ada"])
            time.sleep(0.5)
            server.process.send_signal(signal.SIGTERM)
            # The calls in flight get three seconds.
            assert server.process.wait(timeout=10) == 0
            assert "the server ends" in reason(waiting.result(timeout=10))
        assert "Traceback" not in server.log.read_text(encoding="utf-8")


def test_ctrl_c_ends_it_with_exit_code_0(world: World, tmp_path: Path) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        with serving(world.environment, tmp_path / str(number)) as server:
            assert post(server.url).status_code == 200
            server.process.send_signal(number)
            assert server.process.wait(timeout=15) == 0
            assert "Traceback" not in server.log.read_text(encoding="utf-8")

"""`neo4j-queue serve` as a process: where it listens, whom it lets in, how it ends, what it says when all is down."""

import json
import signal
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from neo4j_queue.http.app import FRESH_S
from tests.celery.conftest import MakeWorld, Run, run, world
from tests.http.conftest import BOUND_S, READY_S, Scene, serving

__all__ = ["run", "world"]

NOWHERE = {
    "NEO4J_URI": "bolt://127.0.0.1:9",
    "EMBED_JOB_DATABASE_URI": "bolt://127.0.0.1:9",
    "CELERY_BROKER_URL": "redis://:a-secret-of-redis@127.0.0.1:9/0",
    "NEO4J_USERNAME": "neo4j",
    "NEO4J_PASSWORD": "a-secret-of-the-graph",
}
ENDS_WITHIN_S = 10.0
TEMPORARY = 75


def test_the_answer_is_that_of_the_command_line(scene: Scene, run: Run) -> None:
    """One function gathers: the same keys and values, in the same order."""
    scene.queue.halt("the key is wrong")
    scene.server.says("halted")
    answer = scene.server.get("/health")
    said = run("health", "--json", code=1)
    assert answer.json == said
    assert list(answer.json) == list(said)
    assert answer.headers["cache-control"] == "no-store"
    assert scene.server.get("/health", method="HEAD").status == 503


def test_reasons_that_come_and_go_are_log_lines_once(scene: Scene) -> None:
    """What stands still is seen by no worker. Fails without the comparison in `Site._looked`."""
    scene.queue.pause(3_600, "holidays")
    scene.server.says("paused")
    for _ in range(3):
        time.sleep(FRESH_S)
        scene.server.codes()
    scene.queue.resume()
    scene.server.is_well()
    text = scene.server.log.read_text(encoding="utf-8")
    lines = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    seen = [(line["level"], line["codes"]) for line in lines if line["event"] == "health_observed"]
    assert seen[-2:] == [("warning", ["paused"]), ("info", [])]


def test_with_everything_down_it_starts_and_says_so_at_once(
    environment: dict[str, str], tmp_path: Path
) -> None:
    """E2. And it ends at once and cleanly. On all addresses it is known by any name; no password is told."""
    with serving({**environment, **NOWHERE}, tmp_path, "--host", "0.0.0.0") as server:
        began = time.monotonic()
        answer = server.get("/health")
        assert time.monotonic() - began < BOUND_S
        assert (answer.status, answer.json["state"]) == (503, "UNAVAILABLE")
        codes = [cause["code"] for cause in answer.json["causes"]]
        assert codes == ["jobs_database_away", "graph_away", "broker_away"]
        assert (answer.json["workers"], answer.json["dead_letters"]) == (None, None)
        assert server.get("/livez").status == 200
        assert server.get("/readyz").status == 503
        assert server.get("/nothing").status == 404
        assert server.get("/health", method="POST").status == 405
        assert server.get("/livez", Host="queue.example:3001").status == 200
        told = answer.body + server.get("/metrics").body + server.log.read_bytes()
        assert b"a-secret" not in told
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(timeout=ENDS_WITHIN_S) == 0
        assert "Traceback" not in server.log.read_text(encoding="utf-8")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_ends_within_seconds_also_while_a_database_is_frozen(
    scene: Scene, environment: dict[str, str], tmp_path: Path, number: signal.Signals
) -> None:
    proxied = {**environment, "EMBED_JOB_DATABASE_URI": f"bolt://127.0.0.1:{scene.proxies.jobs.port}"}
    with serving(proxied, tmp_path) as server:
        assert server.get("/readyz").status == 200
        scene.proxies.jobs.freeze()
        time.sleep(FRESH_S)
        try:
            with ThreadPoolExecutor() as pool:
                waiting = pool.submit(server.get, "/health")
                time.sleep(0.5)
                server.process.send_signal(number)
                assert server.process.wait(timeout=ENDS_WITHIN_S) == 0
                # What was asked before the end is answered.
                assert waiting.result(timeout=READY_S).status == 503
        finally:
            scene.proxies.jobs.thaw()
        assert "Traceback" not in server.log.read_text(encoding="utf-8")


def test_probes_that_come_together_share_one_look(scene: Scene) -> None:
    """Each look tries one write, which is counted. Fails without the task that is under way in `Shared`: sixty."""

    def looks() -> int:
        return int(scene.jobs_db.read("MATCH (c:QueueControl) RETURN coalesce(c._probed, 0) AS n")[0]["n"])

    before, began = looks(), time.monotonic()
    with ThreadPoolExecutor(60) as pool:
        found = list(pool.map(lambda _: scene.server.get("/health").status, range(60)))
    assert set(found) == {200}
    # One each second, and one that was under way.
    assert looks() - before <= 2 + time.monotonic() - began


def test_it_listens_on_loopback_and_lets_in_no_strange_name_and_no_foreign_page(scene: Scene) -> None:
    """A web page on this machine must not read it by a name that leads here (DNS rebinding)."""
    assert scene.server.url.startswith("http://127.0.0.1:")
    assert scene.server.get("/livez", Host="evil.example:3001").status == 421
    assert scene.server.get("/livez", Origin="http://evil.example").status == 403
    assert scene.server.get("/livez", Host="localhost:3001").status == 200


def test_a_port_that_is_taken_is_exit_code_75(make_world: MakeWorld, run: Run) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        said = run("serve", code=TEMPORARY, both=True, HEALTH_PORT=port)
    assert f"cannot listen on 127.0.0.1:{port}" in said

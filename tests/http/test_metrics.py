"""`/metrics` of a real server, and a real Prometheus that scrapes it and raises an alert."""

import json
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote
from urllib.request import urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families

from neo4j_queue.checks.fingerprint import fingerprint
from neo4j_queue.jobs import JobRequest, Outcome
from neo4j_queue.local_services import free_ports
from neo4j_queue.queue.leases import Completion, Spent, Verdicts, Worker
from neo4j_queue.queue.tally import Measured
from neo4j_queue.schema import migrate_graph
from neo4j_queue.schema.graph_schema import GraphSchema
from tests.http.conftest import BOUND_S, READY_S, SEEN_S, Scene, Server
from tests.http.test_reasons import fail, running
from tests.waiting import wait_until

DEPLOY = Path(__file__).parents[2] / "deploy/prometheus"
needs_prometheus = pytest.mark.skipif(
    shutil.which("prometheus") is None,
    reason="SKIPPED: there is no prometheus here (Debian's package of that name)",
)
needs_promtool = pytest.mark.skipif(
    shutil.which("promtool") is None,
    reason="SKIPPED: there is no promtool here (Debian's package prometheus)",
)


def sample(server: Server, name: str, **labels: str) -> float | None:
    answer = server.get("/metrics")
    assert answer.status == 200
    assert answer.headers["content-type"].startswith("text/plain")
    for family in text_string_to_metric_families(answer.body.decode()):
        for each in family.samples:
            if each.name == f"neo4j_queue_{name}" and labels.items() <= each.labels.items():
                return each.value
    return None


def shows(server: Server, value: float | None, name: str, **labels: str) -> None:
    wait_until(
        lambda: sample(server, name, **labels) == value,
        within_s=SEEN_S,
        what=f"{name} {labels} is {value}, not {sample(server, name, **labels)}",
    )


def test_what_happens_is_shown_by_a_server_that_did_none_of_it(scene: Scene) -> None:
    scene.queue.enqueue([JobRequest(f"e{n}", "m", f"{n:016x}") for n in range(5)])
    shows(scene.server, 5, "jobs", status="due")
    (lease,) = scene.queue.lease("test", batches=1).leases
    scene.queue.start(lease.token, lease.job_ids)
    shows(scene.server, 5, "jobs_started")
    verdicts = Verdicts(completed=[Completion(each, Outcome.EMBEDDED) for each in lease.job_ids])
    spent = Spent(1, 50, 0, 5, 0, Measured(0.2, (("200", 0.1),), {}))
    scene.queue.settle(lease.token, verdicts, spent=spent)
    shows(scene.server, 5, "jobs_completed_total", outcome="embedded")
    shows(scene.server, 1, "provider_requests_total", status="200")
    shows(scene.server, 50, "tokens_total")
    shows(scene.server, 1, "batch_seconds_bucket", le="0.25")
    shows(scene.server, 0, "batch_seconds_bucket", le="0.1")
    shows(scene.server, 5, "enqueue_to_vector_seconds_count")
    shows(scene.server, 0, "entities", state="fresh")


def test_while_a_database_is_away_that_is_what_is_shown(scene: Scene) -> None:
    shows(scene.server, 1, "up", part="jobs_database")
    scene.proxies.jobs.freeze()
    try:
        shows(scene.server, 0, "up", part="jobs_database")
        shows(scene.server, 1, "health_reason", code="jobs_database_away")
        began = time.monotonic()
        assert sample(scene.server, "jobs", status="due") is None, "not known, so not shown"
        assert time.monotonic() - began < BOUND_S
    finally:
        scene.proxies.jobs.thaw()
    shows(scene.server, 1, "up", part="jobs_database")
    shows(scene.server, 0, "health_reason", code="jobs_database_away")


@needs_promtool
def test_the_rules_pass_their_tests(tmp_path: Path) -> None:
    """Each alert fires by its series and ends after them: `promtool test rules`."""
    for command in (["check", "rules", "neo4j-queue.rules.yml"], ["test", "rules", "neo4j-queue.tests.yml"]):
        done = subprocess.run(
            ["promtool", *command], cwd=DEPLOY, capture_output=True, text=True, timeout=READY_S, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr


@contextmanager
def prometheus(server: Server, directory: Path) -> Iterator[str]:
    """A real Prometheus with our rules, which scrapes the server each second; its address."""
    (port,) = free_ports(1)
    text = (DEPLOY / "prometheus.yml").read_text(encoding="utf-8")
    text = text.replace("127.0.0.1:3001", server.url.removeprefix("http://").rstrip("/")).replace("15s", "1s")
    (directory / "prometheus.yml").write_text(text, encoding="utf-8")
    rules = (DEPLOY / "neo4j-queue.rules.yml").read_text(encoding="utf-8")
    # How long a fault must last is tested by promtool, whose clock is its own.
    rules = re.sub(r"\n\s+for: \w+", "", rules)
    (directory / "neo4j-queue.rules.yml").write_text(rules, encoding="utf-8")
    with (directory / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(
            [
                *("prometheus", "--config.file=prometheus.yml", "--storage.tsdb.path=data"),
                f"--web.listen-address=127.0.0.1:{port}",
            ],
            cwd=directory,
            stdout=log,
            stderr=log,
        )
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


def asked(address: str, path: str) -> Any:
    try:
        with urlopen(address + path, timeout=5) as answer:
            return json.loads(answer.read())["data"]
    except OSError:
        return None


def plant(scene: Scene) -> Callable[[], None]:
    """Several faults at once; the answer repairs all of them."""
    queue, index = scene.queue, GraphSchema.from_settings(scene.settings).vector_index
    token, jobs = running(queue, 11)
    fail(queue, token, jobs)
    others = scene.settings.model_copy(update={"embed_entity_label": "Book"})
    marks = [fingerprint(settings, scene.graph_db) for settings in (scene.settings, others)]
    queue.census.record([Worker(f"w{n}@h", 1, fingerprint=mark) for n, mark in enumerate(marks)])
    queue.ticks.note(beat=True)
    scene.jobs_db.write("MATCH (c:QueueControl) SET c.beat_at = c.beat_at - 60000")
    queue.halt("the key is wrong")
    queue.pause(3_600, "holidays")
    scene.graph_db.autocommit(f"DROP INDEX {index}")

    def repair() -> None:
        migrate_graph(scene.graph_db, scene.settings)
        queue.resume()
        queue.ticks.note(beat=True)
        queue.census.forget("w1@h")
        scene.jobs_db.autocommit("MATCH (j:EmbedJob) DETACH DELETE j")
        scene.jobs_db.write("MATCH (h:EmbedHealth {name: 'embedding'}) SET h.verdicts = ['ok']")

    return repair


PLANTED = {
    *("Neo4jQueueHalted", "Neo4jQueuePaused", "Neo4jQueueDeadLetters", "Neo4jQueueFailing"),
    *("Neo4jQueueSettingsDisagree", "Neo4jQueueBeatMissing", "Neo4jQueueIndexMissing"),
}


@needs_prometheus
def test_a_real_prometheus_scrapes_it_and_the_alerts_fire_and_end(scene: Scene, tmp_path: Path) -> None:
    """Seven faults are planted, and repaired."""
    with prometheus(scene.server, tmp_path) as address:

        def firing() -> set[str]:
            data = asked(address, "/api/v1/alerts") or {"alerts": []}
            return {each["labels"]["alertname"] for each in data["alerts"] if each["state"] == "firing"}

        def value(query: str) -> str | None:
            data = asked(address, f"/api/v1/query?query={quote(query)}")
            return data["result"][0]["value"][1] if data and data["result"] else None

        wait_until(lambda: value("neo4j_queue_build_info") == "1", within_s=READY_S, what="it was scraped")
        # That no metrics arrive was an alert until then.
        wait_until(lambda: not firing(), within_s=READY_S, what="nothing is wrong")
        repair = plant(scene)
        try:
            wait_until(lambda: firing() == PLANTED, within_s=READY_S, what=f"they fire: {firing()}")
        finally:
            repair()
        wait_until(lambda: not firing(), within_s=READY_S, what="the alerts end")
        targets = asked(address, "/api/v1/targets")["activeTargets"]
        assert [(each["health"], each["lastError"]) for each in targets] == [("up", "")]

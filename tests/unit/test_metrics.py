"""The metrics: the same figures in dashboard, alerts and documents as in what is served."""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from neo4j_queue.checks.health import JobsFacts, Report
from neo4j_queue.http import metrics
from neo4j_queue.queue import tally
from neo4j_queue.queue.budget import RateLimits
from neo4j_queue.queue.health import judge
from neo4j_queue.queue.leases import QueueStatus, RateUsed, Silent, Worker
from neo4j_queue.queue.reasons import Code, HealthState, Reason
from neo4j_queue.queue.ticks import Ages
from neo4j_queue.reconcile.coverage import KnownCoverage
from tests.queue.scenery import fault

ROOT = Path(__file__).parents[2]
RULES = (ROOT / "deploy/prometheus/neo4j-queue.rules.yml").read_text(encoding="utf-8")
RULE_TESTS = (ROOT / "deploy/prometheus/neo4j-queue.tests.yml").read_text(encoding="utf-8")
DASHBOARD = (ROOT / "deploy/grafana/neo4j-queue.json").read_text(encoding="utf-8")
REFERENCE = (ROOT / "docs/reference/metrics.md").read_text(encoding="utf-8")
RUNBOOKS = ROOT / "docs/runbooks"
NAME = re.compile(r"\bneo4j_queue_[a-z_]+\b")
ALERTS = re.findall(r"- alert: (\w+)\n\s+expr: (.+)\n", RULES)

NOW = 1_700_000_000_000
STATUS = QueueStatus(
    pending=3,
    delayed=2,
    processing=4,
    started=1,
    completed=100,
    failed=12,
    total=121,
    oldest_pending_seconds=7.5,
    halted=True,
    halted_reason="x",
    paused_until=NOW + 5_000,
    pause_reason="y",
    workers=(Worker("a@h", 2, 1), Worker("b@h", 2, 2)),
    now=NOW,
    trouble="quota",
    silent=(Silent("c@h", 5_000),),
)
FACTS = JobsFacts(
    replace(judge(["ok", "x"], last_success_at=NOW), last_success_at=NOW),
    STATUS,
    None,
    False,
    Ages(1_000, 2_000, 3_000),
    {f"PERMANENT:Fault{n}": 1 for n in range(40)},
)


def scrape(*counts: tally.Counted) -> metrics.Scrape:
    health = judge([]).with_causes([Reason(Code.HALTED, "halted", HealthState.CRITICAL)])
    coverage = KnownCoverage(10, 7, 2, 1, NOW, NOW, 5, 1, NOW)
    used, limits = RateUsed(5, 70, None), RateLimits(20, 1000, 60_000)
    return metrics.Scrape(Report(health, FACTS, None, 10), list(counts), used, limits, coverage)


def served(found: metrics.Scrape) -> dict[str, Metric]:
    """The families by name, as a client of Prometheus reads them."""
    text = metrics.text(found).decode()
    return {family.name: family for family in text_string_to_metric_families(text)}


def sample(found: metrics.Scrape, name: str, **labels: str) -> float:
    (value,) = [
        each.value
        for family in served(found).values()
        for each in family.samples
        if each.name == f"neo4j_queue_{name}" and labels.items() <= each.labels.items()
    ]
    return value


def sample_names(found: metrics.Scrape) -> set[str]:
    return {each.name for family in served(found).values() for each in family.samples}


def test_what_stands_in_the_jobs_database_is_shown() -> None:
    found = scrape()
    assert sample(found, "jobs", status="due") == 3
    assert sample(found, "oldest_due_seconds") == 7.5
    assert sample(found, "health", state="CRITICAL") == 1
    assert sample(found, "health", state="HEALTHY") == 0
    assert sample(found, "health_reason", code="halted") == 1
    assert sample(found, "health_reason", code="dead_letters") == 0
    assert sample(found, "up", part="graph") == 1
    assert sample(found, "worker_slots") == 4
    assert sample(found, "paused_seconds") == 5
    assert sample(found, "tick_age_seconds", tick="lease") == 2
    assert sample(found, "provider_trouble", trouble="quota") == 1
    assert sample(found, "budget_limit", of="tokens") == 1000
    assert sample(found, "entities", state="stale") == 2
    assert sample(found, "dead_letters") == 12


def test_counts_of_all_workers_are_added_up() -> None:
    one = tally.Counted(
        "openai", "m", {"batches": 2, "tokens": 10, "dollars": 0.5, "requests:200": 2, "lost": 1}
    )
    two = tally.Counted("local", "n", {"batches": 3, "tokens": 7, "requests:200": 1, "requests:5xx": 4})
    events = tally.Counted(None, None, {"halts": 1, "failed:worker_lost:TRANSIENT": 2})
    found = scrape(one, two, events)
    assert sample(found, "batches_total") == 5
    assert sample(found, "provider_requests_total", status="200") == 3
    assert sample(found, "provider_requests_total", status="5xx") == 4
    assert sample(found, "tokens_total", model="m") == 10
    assert sample(found, "cost_dollars_total", model="m", provider="openai") == 0.5
    assert sample(found, "jobs_failed_total", reason="worker_lost", category="TRANSIENT") == 2
    assert sample(found, "jobs_completed_total", outcome="embedded") == 0, "shown before there is any"


def test_a_histogram_is_cumulative_and_holds_what_is_above_all_bounds() -> None:
    counts = tally.Counts()
    for seconds in (0.01, 0.05, 0.06, 9_999):
        tally.BATCH_S.count(counts, seconds)
    found = scrape(tally.Counted("p", "m", counts))
    assert sample(found, "batch_seconds_bucket", le="0.05") == 2, "a bound is in its bucket"
    assert sample(found, "batch_seconds_bucket", le="0.1") == 3
    assert sample(found, "batch_seconds_bucket", le="300.0") == 3
    assert sample(found, "batch_seconds_bucket", le="+Inf") == 4
    assert sample(found, "batch_seconds_count") == 4
    assert sample(found, "batch_seconds_sum") == pytest.approx(9_999.12)


def test_label_values_are_bounded() -> None:
    """Names of faults come from other programs, and statuses from a provider. Fails without `FAULTS_SHOWN` and
    `STATUSES`: each makes a series of its own for ever."""
    (family,) = [f for name, f in served(scrape()).items() if name == "neo4j_queue_dead_letters_latest"]
    assert len(family.samples) == metrics.FAULTS_SHOWN + 1
    assert sample(scrape(), "dead_letters_latest", fault="other") == 20
    found = {tally.status_of(fault(status=status)) for status in range(100, 1000)}
    assert len(found) <= len(tally.STATUSES) + 9


def test_an_absent_jobs_database_shows_itself_and_invents_no_zeros() -> None:
    away = Reason(Code.JOBS_DATABASE_AWAY, "away", HealthState.UNAVAILABLE)
    report = Report(judge([]).with_causes([away]), None, None, 10)
    found = metrics.Scrape(report, None, None, RateLimits(None, None, 60_000), None)
    assert sample(found, "up", part="jobs_database") == 0
    assert sample(found, "health", state="UNAVAILABLE") == 1
    assert {name for name in sample_names(found) if "jobs" in name or "entities" in name} == set()


def used_in(text: str) -> set[str]:
    return set(NAME.findall(text))


@pytest.mark.parametrize("text", [RULES, RULE_TESTS, DASHBOARD], ids=["rules", "tests of rules", "dashboard"])
def test_every_metric_of_rules_and_dashboard_is_served(text: str) -> None:
    """Fails when a metric is renamed in one place."""
    known = sample_names(scrape(tally.Counted("p", "m", {"tokens": 1, "unpriced_tokens": 1})))
    assert used_in(text) - known == set()


def test_the_dashboard_shows_every_family_and_the_reference_explains_it() -> None:
    families = served(scrape(tally.Counted("p", "m", {"tokens": 1})))
    shown = used_in(DASHBOARD)
    missing = [name for name in families if not any(each.startswith(name) for each in shown)]
    assert missing == []
    assert [name for name in families if f"`{name}" not in REFERENCE] == []


def test_each_reason_of_the_health_is_one_alert() -> None:
    named = [code for _, expr in ALERTS for code in _codes(expr)]
    assert sorted(named) == sorted(Code)


def _codes(expr: str) -> Iterator[str]:
    found = re.search(r'code=~?"([^"]+)"', expr)
    yield from found[1].split("|") if found else ()


@pytest.mark.parametrize("alert", [name for name, _ in ALERTS])
def test_each_alert_has_a_runbook_and_a_test(alert: str) -> None:
    page = (RUNBOOKS / f"{alert}.md").read_text(encoding="utf-8")
    expr = dict(ALERTS)[alert]
    assert f"`{expr}`" in page, "the page names what it fires at"
    for heading in ("What it means", "How to see it", "What to do", "When it ends"):
        assert f"## {heading}\n" in page
    assert f"runbook_url: docs/runbooks/{alert}.md" in RULES
    assert f"alertname: {alert}\n" in RULE_TESTS
    assert f"[{alert}]({alert}.md)" in (RUNBOOKS / "README.md").read_text(encoding="utf-8")


def test_there_is_no_runbook_without_an_alert() -> None:
    pages = {path.stem for path in RUNBOOKS.glob("*.md")} - {"README"}
    assert pages == {name for name, _ in ALERTS}


def test_the_dashboard_is_one_that_grafana_takes() -> None:
    board = json.loads(DASHBOARD)
    ids = [panel["id"] for panel in board["panels"]]
    assert len(ids) == len(set(ids))
    assert all(panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24 for panel in board["panels"])

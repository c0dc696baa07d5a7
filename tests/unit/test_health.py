"""What a window of verdicts says. The rules are those of the contract."""

from pathlib import Path
from typing import Any

import pytest

from neo4j_queue.checks.observed import NO_TICK_MS, observed
from neo4j_queue.queue.health import OK, Health, judge
from neo4j_queue.queue.leases import Silent
from neo4j_queue.queue.reasons import COMMANDS, SEVERITY, Code, HealthState, Reason

BAD = "TRANSIENT:APITimeoutError"


def window(text: str) -> list[str]:
    """`..x` = two successes, then a failure; the newest verdict comes first in a window."""
    return [OK if mark == "." else BAD for mark in reversed(text)]


@pytest.mark.parametrize(
    ("verdicts", "state", "streak"),
    [
        ("", "HEALTHY", 0),
        (".", "HEALTHY", 0),
        ("x", "HEALTHY", 1),
        ("xxxx", "HEALTHY", 4),
        ("xxx.", "HEALTHY", 0),
        ("xxxxx", "DEGRADED", 5),
        ("xxxxx.", "HEALTHY", 0),
        ("." * 95 + "x" * 5, "DEGRADED", 5),
        ("x" * 9, "DEGRADED", 9),
        ("x" * 10, "CRITICAL", 10),
        ("." * 90 + "x" * 10, "CRITICAL", 10),
        ("x" * 10 + ".", "DEGRADED", 0),
        ("x.x.x.x.x.", "HEALTHY", 0),
        ("xxxx.xx.x.", "DEGRADED", 0),
        ("xxx.xx.x.", "HEALTHY", 0),
        ("x" * 50 + "." * 50, "HEALTHY", 0),
        ("x" * 51 + "." * 49, "DEGRADED", 0),
    ],
)
def test_the_state(verdicts: str, state: str, streak: int) -> None:
    """E1. Rates need ten verdicts; exactly half is still healthy."""
    health = judge(window(verdicts))
    assert (health.state, health.consecutive_failures) == (HealthState(state), streak)
    assert bool(health.reasons) is (state != "HEALTHY")


def test_no_verdict_is_no_rate() -> None:
    health = judge([])
    assert (health.success_rate, health.verdicts, health.last_success_at) == (None, 0, None)


def test_errors_are_counted_by_category_and_type() -> None:
    verdicts = [BAD, OK, "PERMANENT:BadRequestError", BAD]
    health = judge(verdicts, last_success_at=5)
    assert health.error_patterns == {BAD: 2, "PERMANENT:BadRequestError": 1}
    assert (health.success_rate, health.last_success_at) == (0.25, 5)


def test_halted_is_critical_whatever_the_window_shows_and_says_why() -> None:
    health = judge(window("....."), halted=True, halted_reason="bad key")
    assert (health.state, health.reasons) == (HealthState.CRITICAL, ("halted: bad key",))
    assert judge([], halted=True).reasons == ("halted: no reason given",)


def test_all_reasons_are_given() -> None:
    reasons = judge(window("x" * 12), halted=True, halted_reason="bad key").reasons
    assert reasons == (
        "only 0% of the last 12 attempts succeeded",
        "12 failures in a row",
        "halted: bad key",
    )


@pytest.mark.parametrize(
    ("verdicts", "unfinished", "workers", "broker", "state", "reasons"),
    [
        (".", 0, 0, None, "HEALTHY", 0),
        (".", 5, 2, None, "HEALTHY", 0),
        (".", 5, 0, None, "DEGRADED", 1),
        (".", 0, 0, "refused", "DEGRADED", 1),
        (".", 5, 0, "refused", "DEGRADED", 2),
        ("x" * 10, 5, 0, "refused", "CRITICAL", 4),
    ],
)
def test_jobs_without_workers_and_a_broker_out_of_reach_are_no_health(
    verdicts: str, unfinished: int, workers: int, broker: str | None, state: str, reasons: int
) -> None:
    health = observed(judge(window(verdicts)), unfinished=unfinished, workers=workers, broker=broker)
    assert (health.state, len(health.reasons)) == (HealthState(state), reasons)


@pytest.mark.parametrize(
    ("verdicts", "state", "reasons"),
    [(".", "DEGRADED", ("they differ",)), ("x" * 10, "CRITICAL", ("10 failures in a row", "they differ"))],
)
def test_workers_that_disagree_are_no_health(verdicts: str, state: str, reasons: tuple[str, ...]) -> None:
    """Each ends the jobs of the others without a vector, and no verdict shows it."""
    health = observed(
        judge(window(verdicts)), unfinished=0, workers=2, broker=None, disagreement="they differ"
    )
    assert health.state == state
    assert set(reasons) <= set(health.reasons)


@pytest.mark.parametrize(("verdicts", "aged"), [("x" * 12, False), ("x" * 12, True), ("x.xxx" * 5, True)])
def test_a_window_that_is_too_old_says_nothing_of_now(verdicts: str, aged: bool) -> None:
    """Ten failures at night are no outage in the morning: the cause may be repaired, and no job has tried. The
    figures stay. Fails without `aged` in `judge`."""
    health = judge(window(verdicts), aged=aged)
    assert (health.state == HealthState.HEALTHY) is aged
    assert (health.reasons == ()) is aged
    assert health.error_patterns


@pytest.mark.parametrize(
    ("rounds", "state"), [(1, "HEALTHY"), (4, "HEALTHY"), (5, "DEGRADED"), (50, "DEGRADED")]
)
def test_a_rate_limit_that_does_not_pass_is_no_health(rounds: int, state: str) -> None:
    """Nothing is embedded, and no verdict says so. Fails without `RATE_LIMIT_ROUNDS`."""
    health = judge([], trouble="rate_limit", trouble_rounds=rounds, pause_reason="rate_limit: 429")
    assert health.state == state
    assert bool(health.reasons) is (state != "HEALTHY")


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"pause": (2_592_000.0, "holidays")}, "paused for another 30 days, 0:00:00: holidays"),
        ({"pause": (301.0, None)}, "paused for another 0:05:01: no reason given"),
        ({"pause": (300.0, "429")}, None),
        ({"request_limit": 0}, "no request is allowed: EMBEDDING_RATE_LIMIT_TOKENS is 0"),
        ({"request_limit": 1}, None),
        (
            {"silent": (Silent("w@h", 95_000, leases=2, holds=2),)},
            "w@h has not answered for 0:01:35 and holds 2 batches: these jobs come back when their locks run out, and "
            "at once by this command",
        ),
        ({"silent": (Silent("w@h", 95_000, leases=2),)}, None),
        (
            {"oldest_due_s": 601.0},
            "jobs have been due for 0:10:01, and no vector was made in the last 10 minutes",
        ),
        ({"oldest_due_s": 601.0, "success_s_ago": 599.0}, None),
        ({"oldest_due_s": 601.0, "jobs_end": True}, None),
        ({"oldest_due_s": 86_400.0, "success_s_ago": 1.0}, None),
        ({"oldest_due_s": 599.0, "success_s_ago": 86_400.0}, None),
    ],
)
def test_what_stands_still_says_why(more: dict[str, Any], reason: str | None) -> None:
    """No verdict shows it: a pause by a person, a limit of nothing, and whatever else keeps due jobs waiting. A long
    queue that drains is healthy. Each line fails without its reason in `observed`."""
    health = observed(judge(window(".")), unfinished=5, workers=1, broker=None, **more)
    assert health.reasons == (() if reason is None else (reason,))
    assert health.state == ("HEALTHY" if reason is None else "DEGRADED")


def test_a_pause_that_is_a_reason_already_is_not_told_twice() -> None:
    resting = judge([], trouble="quota", trouble_rounds=3, pause_reason="quota: 402")
    health = observed(resting, unfinished=5, workers=1, broker=None, pause=(3_000.0, "quota: 402"))
    assert health.reasons == resting.reasons


ABSENT = Reason(Code.EMBED_WORKER_MISSING, "no embed worker answers")


@pytest.mark.parametrize(
    ("unfinished", "missing", "tick_ms", "codes"),
    [
        (5, [ABSENT], NO_TICK_MS + 1, [Code.EMBED_WORKER_MISSING]),
        (5, [], NO_TICK_MS + 1, [Code.NO_LEASE_TICK]),
        (5, [], NO_TICK_MS, []),
        (5, [], None, []),
        (0, None, NO_TICK_MS + 1, [Code.NO_LEASE_TICK]),
        (0, None, None, []),
        (5, None, None, [Code.EMBED_WORKER_MISSING]),
        (5, None, NO_TICK_MS + 1, [Code.NO_LEASE_TICK, Code.EMBED_WORKER_MISSING]),
        (0, [ABSENT], None, []),
    ],
)
def test_who_is_missing_and_whether_anything_ticks(
    unfinished: int, missing: list[Reason] | None, tick_ms: int | None, codes: list[Code]
) -> None:
    """A process that answers and does nothing is seen by its ticks alone. A queue that beat never ticked for needs none
    while it is empty."""
    health = observed(
        judge([]), unfinished=unfinished, workers=0, broker=None, missing=missing, tick_ms=tick_ms
    )
    assert [cause.code for cause in health.causes] == codes


def test_the_worst_reason_is_the_state() -> None:
    found = Health(HealthState.DEGRADED, 0, None, 0)
    assert found.with_causes([]).state == "DEGRADED"
    away = Reason(Code.GRAPH_AWAY, "it is away", HealthState.UNAVAILABLE)
    assert found.with_causes([away, ABSENT]).state == "UNAVAILABLE"
    assert found.with_causes([away, ABSENT]).reasons == ("it is away", "no embed worker answers")
    assert sorted(HealthState, key=SEVERITY.__getitem__)[0] == "HEALTHY"


def test_every_reason_has_a_command_and_stands_in_the_reference() -> None:
    """Alerts and scripts rely on the codes."""
    text = (Path(__file__).parents[2] / "docs/reference/health.md").read_text(encoding="utf-8")
    assert [code for code in Code if f"`{code}`" not in text] == []
    assert set(COMMANDS) == set(Code)

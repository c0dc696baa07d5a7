"""`dead list|show|stats|replay|purge|export` on real databases: what they print, ask and change (E4)."""

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from neo4j_queue.errors import ErrorCategory, Fault, FaultKind
from neo4j_queue.queue.leases import Failure, Verdicts
from tests.celery.conftest import MakeWorld, Run, World
from tests.celery_processes import ROOT
from tests.waiting import wait_until

NOT_FOUND, USAGE, NO_DATABASE = 1, 2, 75
REFUSED = Fault(ErrorCategory.PERMANENT, FaultKind.ITEM, "BadRequestError", "HTTP 400: refused", status=400)
NO_MONEY = Fault(
    ErrorCategory.PERMANENT,
    FaultKind.ITEM,
    "BadRequestError",
    "HTTP 400: Budget has been exceeded!",
    status=400,
)


def fail(world: World, fault: Fault, *names: str) -> None:
    """Entities of these names, whose jobs failed."""
    world.graph.create_entities({"name": name, "observations": [f"text of {name}"]} for name in names)
    (lease,) = world.queue.lease("w1", batches=1).leases
    start = world.queue.start(lease.token, lease.job_ids, worker="embed@host7")
    world.queue.settle(lease.token, Verdicts(failed=[Failure(job, fault) for job in start.jobs]))


@pytest.fixture
def failed(world: World) -> World:
    """Three refused texts and one without money."""
    fail(world, REFUSED, "a", "b", "c")
    fail(world, NO_MONEY, "poor")
    return world


def test_list_stats_and_show_tell_what_failed_and_why(failed: World, run: Run) -> None:
    listed = run("dead", "list", "--json")
    assert listed[0]["entity_uid"] == "poor"
    assert {job["entity_uid"] for job in run("dead", "list", "--quota", "--json")} == {"poor"}
    wanted = ("--since", "1h", "--type", "badrequesterror", "--limit", "2")
    assert len(run("dead", "list", *wanted, "--json")) == 2
    assert "HTTP 400: refused" in run("dead", "list")
    stats = run("dead", "stats", "--json")
    assert (stats["jobs"], stats["by_status"], stats["by_reason"]) == (4, {"400": 4}, {"permanent_error": 4})
    assert stats["alert_above"] == 10
    assert sum(stats["by_day"].values()) == 4
    assert "permanent_error (4)" in run("dead", "stats")
    shown = run("dead", "show", "a", "--json")[0]
    (attempt,) = shown["history"]
    assert (attempt["worker"], attempt["error_status"], attempt["error"]) == (
        "embed@host7",
        400,
        "HTTP 400: refused",
    )
    assert shown["text"]["state"] == "as_it_was"
    assert shown["text"]["hash"].startswith(shown["version"])
    assert "text" not in shown["text"]
    assert run("dead", "show", shown["id"], "--json")["id"] == shown["id"]
    told = run("dead", "show", "a")
    assert "embed@host7" in told
    assert "text of a" not in told, "the text only where it is asked for"
    assert "text of a" in run("dead", "show", "a", "--text")
    assert shown["id"] in run("jobs", "show", shown["id"], "--json")["id"]
    assert run("explain", "a", "--json", code=NOT_FOUND)["jobs"][0]["history"] == [attempt]
    run("dead", "show", "nothing", code=NOT_FOUND)


def test_a_text_that_changed_or_went_is_said_so(failed: World, run: Run) -> None:
    failed.graph_db.write("MATCH (n:Entity {name: 'a'}) SET n.observations = ['another text']")
    failed.graph_db.write("MATCH (n:Entity {name: 'b'}) DETACH DELETE n")
    failed.graph_db.write("MATCH (n:Entity {name: 'c'}) SET n.validTo = 1")
    states = {
        job["entity_uid"]: job["text"]["state"]
        for job in map(json.loads, run("dead", "export", "--text").splitlines())
    }
    assert states == {"a": "changed", "b": "gone", "c": "deleted", "poor": "as_it_was"}


def test_show_without_the_graph_shows_the_job(failed: World, run: Run) -> None:
    nowhere = {"NEO4J_URI": "bolt://127.0.0.1:9"}
    told = run("dead", "show", "a", both=True, **nowhere)
    assert "HTTP 400: refused" in told
    assert "what became of the texts is not known" in told


def test_export_is_a_line_of_json_for_each_without_texts_and_vectors(failed: World, run: Run) -> None:
    lines = [json.loads(line) for line in run("dead", "export").splitlines()]
    assert lines[0]["entity_uid"] == "poor"
    assert len(lines) == 4
    assert all(line["history"] for line in lines)
    assert "text of" not in run("dead", "export")
    assert len(run("dead", "export", "--limit", "2", "--json", code=0, both=True).splitlines()) == 2
    with_text = [json.loads(line) for line in run("dead", "export", "--text", "--quota").splitlines()]
    assert "text of poor" in with_text[0]["text"]["text"]
    assert "embedding" not in json.dumps(with_text)


def test_a_reader_that_has_enough_ends_an_export_without_a_word(failed: World, tmp_path: Path) -> None:
    """And a name that a terminal would obey is only a name."""
    fail(failed, REFUSED, "red \x1b[31m")
    command = f"{sys.executable} -m neo4j_queue.cli dead"
    environment = {**failed.environment, "PYTHONPATH": str(ROOT)}
    for line in (f"{command} export | head -n 1", f"{command} list", f"{command} show 'red \x1b[31m'"):
        done = subprocess.run(
            line,
            shell=True,
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        assert done.stderr == ""
        assert "red" in done.stdout
        assert "\x1b" not in done.stdout


def test_a_named_one_is_replayed_at_once_and_many_only_with_yes(failed: World, run: Run) -> None:
    assert run("dead", "replay", "a", "--json") == {"retried": 1, "left": 0}
    said = run("dead", "replay", "--status", "400", code=USAGE, both=True)
    assert "--yes" in said
    assert failed.queue.status().failed == 3
    assert run("dead", "replay", "--status", "400", "--limit", "1", "--yes", "--json")["retried"] == 1
    assert run("dead", "replay", "--all", "--yes", "--json")["retried"] == 2
    run("dead", "replay", "nothing", code=NOT_FOUND)
    run("dead", "replay", code=USAGE)
    run("dead", "replay", "a", "--all", code=USAGE)


def test_a_dry_run_says_how_many_and_what_they_cost_and_changes_nothing(failed: World, run: Run) -> None:
    answer = run("dead", "replay", "--status", "400", "--dry-run", "--json")
    assert (answer["would_replay"], answer["to_embed"], answer["requests"]) == (4, 4, 1)
    assert answer["model_tokens"] > 0
    assert run("dead", "replay", "--all", "--limit", "2", "--dry-run", "--json")["would_replay"] == 2
    assert "would replay" in run("dead", "replay", "a", "--dry-run")
    assert run("dead", "purge", "--all", "--dry-run", "--json") == {"dry_run": True, "would_purge": 4}
    assert failed.queue.status().failed == 4


def test_a_purge_asks_even_for_a_named_one_and_leaves_an_archive_record(failed: World, run: Run) -> None:
    run("dead", "purge", "a", code=USAGE)
    assert run("dead", "purge", "a", "--yes", "--json") == {"purged": 1, "archived": 1}
    assert run("dead", "purge", "--quota", "--yes", "--json", EMBED_JOB_ARCHIVE_DAYS="0") == {
        "purged": 1,
        "archived": 0,
    }
    assert failed.queue.status().failed == 2


@pytest.mark.parametrize(("word", "left"), [("y", 0), ("n", 4)])
def test_at_a_terminal_it_asks(failed: World, tmp_path: Path, word: str, left: int) -> None:
    """Fails without `confirm`: all of them would be queued again without a question."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "neo4j_queue.cli", "dead", "replay", "--all"],
        cwd=tmp_path,
        env={**failed.environment, "PYTHONPATH": str(ROOT)},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    said = b""
    while b"[y/N]" not in said:
        said += os.read(ours, 1024)
    assert b"4 dead letters, about" in said
    os.write(ours, f"{word}\n".encode())
    assert process.wait(60) == (0 if word == "y" else 1)
    os.close(ours)
    assert failed.queue.status().failed == left


def test_the_daily_task_replays_what_failed_for_money_and_the_log_tells_when_there_are_too_many(
    make_world: MakeWorld,
) -> None:
    """Replayed by its words too: fails while only the statuses 402 and 429 are looked for. Four are above the limit of
    three, and three are not: a line each, whoever ticks."""
    world = make_world(EMBED_DEAD_LETTER_ALERT="3")
    fail(world, REFUSED, "a", "b", "c")
    fail(world, NO_MONEY, "poor")
    control = world.celery.control()
    for _ in range(2):
        world.celery.call("call", "tasks.upkeep.heartbeat")
    wait_until(lambda: control.events("dead_letters_above_limit"), within_s=20, what="it is told")
    world.celery.call("call", "tasks.upkeep.retry_quota")
    wait_until(lambda: world.queue.status().failed == 3, within_s=20, what="one is queued again")
    assert control.events("quota_failures_retried")
    for _ in range(2):
        world.celery.call("call", "tasks.upkeep.heartbeat")
    wait_until(lambda: control.events("dead_letters_below_limit"), within_s=20, what="it is told")
    (above,), (below,) = (
        control.events("dead_letters_above_limit"),
        control.events("dead_letters_below_limit"),
    )
    assert (above["jobs"], above["limit"], above["level"]) == (4, 3, "warning")
    assert (below["jobs"], below["limit"], below["level"]) == (3, 3, "info")

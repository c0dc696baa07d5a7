"""The command line on real databases: what it prints for programs, and what it changes."""

import json
import re
import socket
import time
from typing import Any

import pytest

from neo4j_queue.checks.fingerprint import fingerprint
from neo4j_queue.jobs import JobRequest
from neo4j_queue.local_services import LocalServices
from neo4j_queue.queue.leases import Worker
from tests.celery.conftest import REFUSED, Run, World
from tests.freezing import frozen
from tests.provider import ProviderServer
from tests.waiting import wait_until

STATUS_KEYS = [
    "pending", "delayed", "processing", "started", "completed", "failed", "total", "oldest_pending_seconds",
    "halted", "paused_until", "workers", "coverage", "waiting_for", "done_at", "limits",
    "silent_workers",
]  # fmt: skip

NOTHING, TEMPORARY = 1, 75
# A worker in the census counts for minutes, however slowly a command starts.
LONG_REMEMBERED = {"EMBED_JOB_HEARTBEAT_INTERVAL_MS": "120000", "EMBED_JOB_LOCK_DURATION_MS": "300000"}


def test_status_json_has_the_names_of_the_contract_in_their_order(world: World, run: Run) -> None:
    answer = run("status", "--json")
    assert list(answer) == STATUS_KEYS
    assert [answer[name] for name in STATUS_KEYS[:10]] == [0] * 7 + [None, False, None]
    counts = {"entities": 0, "fresh": 0, "stale": 0, "missing": 0, "outbox": 0, "compared_at": None}
    not_looked = {"failed": None, "oldest_stale_at": None}
    assert answer["coverage"] == {**counts, **not_looked, "as_of": answer["coverage"]["as_of"]}
    assert answer["coverage"]["as_of"].endswith("Z")
    assert (answer["waiting_for"], answer["done_at"], answer["limits"]["used"]) == (None, None, 0)
    world.create(3)
    answer = run("status", "--json")
    assert (answer["pending"], answer["total"], answer["coverage"]["missing"]) == (3, 3, 3)
    assert answer["oldest_pending_seconds"] >= 0
    assert "pending" in run("status")
    (lease,) = world.queue.lease("w1", batches=1).leases
    world.queue.start(lease.token, lease.job_ids)
    assert re.search(r"3 \(3 started; locks that no worker renews run out in about \d s\)", run("status"))


@pytest.mark.parametrize("command", [["status"], ["health"], ["pause", "5"], ["resume"]], ids=" ".join)
def test_a_jobs_database_that_is_not_prepared_names_the_command_that_prepares_it(
    world: World, run: Run, command: list[str]
) -> None:
    world.jobs_db.autocommit("MATCH (n) DETACH DELETE n")
    said = run(*command, code=REFUSED)
    assert said.strip() == "neo4j-queue: the jobs database is not prepared: run neo4j-queue init"


@pytest.mark.parametrize(
    ("variable", "command"),
    [
        *(("NEO4J_DATABASE", command) for command in ("init", "status", "enqueue --all", "search x")),
        *(("EMBED_JOB_DATABASE_NAME", command) for command in ("init", "status", "health", "pause 1")),
    ],
)
def test_a_database_that_does_not_exist_is_named_with_its_variable(
    world: World, run: Run, variable: str, command: str
) -> None:
    settings = world.settings
    uri = settings.neo4j_uri if variable == "NEO4J_DATABASE" else settings.embed_job_database_uri
    said = run(*command.split(), code=REFUSED, **{variable: "nope"})
    there = "neo4j" if variable == "NEO4J_DATABASE" else "embedding-jobs"
    missing = f"neo4j-queue: {variable}=nope: {uri} has no database of this name"
    assert said.strip() == f"{missing}; there is {there}"


def test_status_without_the_graph_shows_the_queue_and_ends_with_75(world: World, run: Run) -> None:
    world.create(2)
    answer = run("status", "--json", code=75, NEO4J_URI="bolt://127.0.0.1:9")
    assert (answer["pending"], answer["coverage"]) == (2, None)


def test_health_says_healthy_by_words_and_by_its_exit_code(world: World, run: Run) -> None:
    assert run("health", "--json")["state"] == "HEALTHY"
    world.queue.halt("the key is wrong")
    answer = run("health", "--json", code=1)
    assert answer["state"] == "CRITICAL"
    assert "the key is wrong" in answer["reasons"][0]


def test_health_is_degraded_while_nobody_works_on_jobs(world: World, run: Run) -> None:
    idle = run("health", both=True)
    assert "HEALTHY" in idle
    assert "no workers" in idle
    world.create(2)
    answer = run("health", "--json", code=1)
    assert (answer["state"], answer["workers"]) == ("DEGRADED", 0)
    assert [reason.split(",")[0] for reason in answer["reasons"]] == [
        "no control worker answers",
        "no embed worker answers",
        "beat never ticked: start it: `celery -A tasks beat`; without it no dead worker's jobs come back",
    ]


def test_health_and_doctor_name_who_is_missing_within_three_ticks(world: World, run: Run) -> None:
    """Of beat, control and embed worker, each killed while the others live; all of them there is healthy.

    Guards: `ticks.note` in `lease_batch` and the question of `presence.look`. Before, a dead beat or control worker was
    not named, and a dead embed worker after minutes.
    """
    world.queue.pause(300, "test")
    world.create(2)
    beat = world.celery.beat()
    control, embed = world.celery.control(), world.celery.embed()
    wait_until(lambda: not world.queue.ticks.ages().beat_is_missing, within_s=30, what="beat ticks")
    assert missing(run) == []
    embed.kill()
    assert missing(run) == ["embed worker"]
    beat.kill()
    wait_until(lambda: world.queue.ticks.ages().beat_is_missing, within_s=6, what="three ticks are missed")
    assert missing(run) == ["embed worker", "beat"]
    beat = world.celery.beat()
    wait_until(lambda: not world.queue.ticks.ages().beat_is_missing, within_s=30, what="beat ticks again")
    control.kill()
    wait_until(lambda: world.queue.ticks.ages().beat_is_missing, within_s=6, what="three ticks are missed")
    assert missing(run) == ["control worker", "embed worker"]
    beat.kill()
    assert missing(run) == ["control worker", "embed worker", "beat"]


# Of each reason: behind them are seconds.
WORDS = len("beat has not ticked")


def missing(run: Run) -> list[str]:
    """Who is missing as `doctor` sees it; `health` says the same."""
    answer = run("doctor", "--json", code=None)
    found = [
        each for each in answer["findings"] if each["subject"] in ("control worker", "embed worker", "beat")
    ]
    health = run("health", "--json", code=1 if found else 0)
    assert [reason[:WORDS] for reason in health["reasons"]] == [each["detail"][:WORDS] for each in found]
    return [each["subject"] for each in found]


def test_health_is_degraded_while_workers_disagree(world: World, run: Run) -> None:
    theirs = [Worker("a@host", 1, fingerprint="model:1"), Worker("b@host", 1, fingerprint="model:2")]
    world.queue.census.record(theirs)
    answer = run("health", "--json", code=1, **LONG_REMEMBERED)
    assert (answer["state"], answer["workers"]) == ("DEGRADED", 2)
    assert answer["reasons"][0].startswith("workers run with different settings (model): a@host / b@host")


def test_health_is_degraded_without_a_broker_and_does_not_wait_for_one(world: World, run: Run) -> None:
    with socket.socket() as deaf:  # accepts, and never says a word
        deaf.bind(("127.0.0.1", 0))
        deaf.listen()
        for port in (9, deaf.getsockname()[1]):
            answer = run("health", "--json", code=1, CELERY_BROKER_URL=f"redis://127.0.0.1:{port}/0")
            assert answer["state"] == "DEGRADED"
            assert "the broker cannot be reached" in answer["reasons"][0]


def test_pause_and_resume_act_and_say_so(world: World, run: Run) -> None:
    """Also in the log, as when a task or the provider does it."""
    until = run("pause", "3600", "--reason", "maintenance", "--json")["paused_until"]
    assert run("status", "--json")["paused_until"] == until
    assert "maintenance" in run("status")
    assert run("resume", "--json") == {
        "was_halted": False,
        "was_paused": True,
        "was_in_trouble": False,
    }
    assert world.queue.status().paused_until is None
    assert "Nothing to do" in run("resume")

    def said(*command: str) -> list[tuple[str, str]]:
        lines = [line for line in run(*command, both=True).splitlines() if line.startswith("{")]
        return [(line["level"], line["event"]) for line in map(json.loads, lines)]

    assert said("pause", "60") == [("warning", "queue_paused")]
    assert said("resume") == [("info", "queue_resumed")]
    assert said("resume") == []


def test_usage_shows_what_a_run_asked_for(world: World, run: Run) -> None:
    assert run("usage", "--json")["requests"] == 0
    world.create(30)
    estimated = run("enqueue", *(f"e{n}" for n in range(30)), "--dry-run", "--json")
    assert (estimated["queued_before"], estimated["to_embed"]) == (30, 0)
    lease_and_embed(world)
    used = run("usage", "--json", EMBEDDING_PRICE_PER_MILLION_TOKENS="1000")
    assert (used["money_usd"], used["unpriced_tokens"]) == (0, 0)
    world.jobs_db.write("MATCH (l:EmbedLease) SET l.price = 1000.0")
    used = run("usage", "--json")
    assert (used["requests"], used["jobs"], used["batches"], used["searches"]) == (2, 30, 2, 0)
    assert used["money_usd"] == pytest.approx(used["model_tokens"] / 1000)
    assert used["first_at"] <= used["last_at"] <= used["now"]
    (part,) = used["by_model"]
    assert (part["provider"], part["model"], part["requests"]) == ("mock", "mock-256", 2)
    assert part["price_per_million_usd"] == 1000
    assert "30 jobs in 2 batches" in run("usage")


def failed_job(world: World, name: str) -> str:
    """A job that failed for good; its id."""
    (result,) = world.queue.enqueue(JobRequest(name, "m", "v"))
    world.jobs_db.write(
        "MATCH (j:EmbedJob {id: $id}) SET j.status = 'failed', j.processed_at = timestamp(), j.error = 'no',"
        " j.error_category = 'PERMANENT', j.failure_reason = 'permanent_error', j.error_status = 400",
        id=result.id,
    )
    return result.id


def test_failed_jobs_are_listed_shown_and_queued_again(world: World, run: Run) -> None:
    one, other = failed_job(world, "a"), failed_job(world, "b")
    assert {job["id"] for job in run("jobs", "list", "--status", "failed", "--json")} == {one, other}
    assert [job["id"] for job in run("jobs", "list", "--entity", "b", "--json")] == [other]
    assert run("jobs", "show", one, "--json")["failure_reason"] == "permanent_error"
    assert one in run("jobs", "show", one)
    run("jobs", "show", "no-such-id", code=1)
    assert run("retry", "--category", "TRANSIENT", "--json") == {"retried": 0, "left": 0}
    assert run("retry", one, "--json") == {"retried": 1, "left": 0}
    run("retry", one, code=1)
    assert run("retry", "--status", "400", "--reason", "permanent_error", "--json") == {
        "retried": 1,
        "left": 0,
    }


@pytest.mark.parametrize(
    "command",
    ["enqueue KEY", "repair KEY", "jobs list", "jobs show ID", "search x", "enqueue KEY -- absent\x1b"],
)
def test_no_command_prints_what_steers_the_terminal(world: World, run: Run, command: str) -> None:
    key = "evil\x1b[2J\x9b"
    world.graph_db.write("CREATE (:Entity {name: $key, entityType: 'thing'})", key=key)
    run("enqueue", key)
    (job,) = run("jobs", "list", "--json")
    world.jobs_db.write("MATCH (j:EmbedJob) SET j.error = $key, j.error_stack = 'one\n' + $key", key=key)
    if command == "search x":
        lease_and_embed(world)
    words = [{"KEY": key, "ID": job["id"]}.get(word, word) for word in command.split(" ")]
    said = run(*words, both=True, code=NOTHING if "absent" in command else 0)
    assert r"evil\x1b[2J\x9b" in said
    assert all(c == "\n" or c.isprintable() for c in said)


def test_release_takes_running_jobs_back_and_names_those_that_do_not_run(world: World, run: Run) -> None:
    world.create(3)
    (lease,) = world.queue.lease("worker", batches=1).leases
    running = list(lease.job_ids)
    assert sorted(run("release", *running, "--json")["released"]) == sorted(running)
    assert run("release", running[0], "--json", code=1) == {"released": []}


def test_cleanup_removes_what_is_past_the_retention(world: World, run: Run) -> None:
    failed_job(world, "old")
    world.jobs_db.write("MATCH (j:EmbedJob) SET j.processed_at = timestamp() - 40 * 86400000")
    failed_job(world, "new")
    assert run("cleanup", "--json")["removed"] == 1
    assert world.queue.status().failed == 1


def test_search_finds_the_nearest_first_and_nothing_is_exit_code_1(world: World, run: Run) -> None:
    run("search", "anything", code=1)
    world.create(3)
    text = world.graph.read_texts(["e1"])[0].text
    lease_and_embed(world)
    answer = run("search", text, "--limit", "2", "--mode", "semantic", "--json")
    hits = answer["hits"]
    assert hits[0]["entity"] == "e1"
    assert len(hits) == 2
    assert hits[0]["score"] > 0.99
    assert "e1" in run("search", text)


def test_search_gives_what_the_python_call_gives(world: World, run: Run) -> None:
    """D8: each option is its parameter. Guard: any of them not handed on."""
    world.create(6)
    lease_and_embed(world)
    world.graph_db.write("MATCH (n:Entity {name: 'e1'}) SET n:Odd, n.year = 1804, n.note = '42'")
    world.graph_db.write("MATCH (n:Entity {name: 'e2'}) SET n.year = '1804', n.embedded_at = 0")

    def same(*options: str, **given: Any) -> Any:
        answer = run("search", "text e1", *options, "--json")
        assert answer == json.loads(json.dumps(world.graph.search("text e1", **given).as_dict(), default=str))
        return [hit["entity"] for hit in answer["hits"]]

    assert len(same()) == 6
    assert len(same("--limit", "2", limit=2)) == 2
    assert same("--mode", "keyword", "--min-score", "0.9", mode="keyword", min_score=0.9) == ["e1"]
    assert same("--label", "Odd", "--label", "Entity", labels=["Odd", "Entity"]) == ["e1"]
    assert same("--where", "year=1804", where={"year": 1804}) == ["e1"]
    assert same("--where", 'year="1804"', where={"year": "1804"}) == ["e2"]
    assert len(same("--where", "year=null", where={"year": None})) == 4
    assert same("--where", "name=e3", "--where", "note=null", where={"name": "e3", "note": None}) == ["e3"]
    assert "e2" not in same("--changed-since", "2000-01-01T00:00Z", changed_since="2000-01-01T00:00Z")
    assert same("--lucene", "--mode", "keyword", lucene=True, mode="keyword") == same("--lucene", lucene=True)
    assert len(same("--strict", strict=True)) == 6


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--where", "year"], "'year' is not NAME=VALUE"),
        (["--where", "=1"], "'=1' is not NAME=VALUE"),
        (["--where", 'a={"b": 1}'], "where: `a` holds a map"),
        (["--changed-since", "soon"], "'soon' is not a time"),
        (["--min-score", "2"], "less than or equal to 1"),
        (["--mode", "fuzzy"], "fuzzy"),
        (["--limit", "0"], "greater than or equal to 1"),
        (["--mode", "semantic", "--lucene"], "looks at no words"),
    ],
)
def test_a_search_that_cannot_be_meant_is_one_line_and_exit_code_2(
    world: World, run: Run, options: list[str], said: str
) -> None:
    assert said in run("search", "x", *options, code=2, both=True)


def test_a_mistake_in_the_syntax_of_a_search_is_one_line(world: World, run: Run) -> None:
    said = run("search", "title:(a OR", "--lucene", code=2, both=True)
    assert 'the query is not in Lucene syntax: Encountered "<EOF>" at line 1, column 11.\n' in said
    assert run("search", "title:(a OR", code=NOTHING, both=True).count("nothing found") == 1


def test_an_empty_answer_names_the_filters(world: World, run: Run) -> None:
    """Seen failing with the line about `status`, which does not help where a filter left nothing."""
    world.create(3)
    filters = ["--label", "Entity", "--where", "year=18 43", "--changed-since", "2h", "--min-score", "0.5"]
    said = run("search", "e1", "--mode", "keyword", *filters, code=NOTHING, both=True)
    assert "--label Entity --where 'year=18 43' --changed-since 2h --min-score 0.5" in said
    assert "neo4j-queue status" not in said
    plain = run("search", "unheard", "--mode", "keyword", code=NOTHING, both=True)
    assert "nothing found; `neo4j-queue status` shows" in plain
    assert "--" not in plain


def test_search_says_what_it_searched_when_it_fell_back_and_marks_stale_hits(world: World, run: Run) -> None:
    """D8."""
    world.create(3)
    said = run("search", "e1", both=True)
    assert (
        "warning: searched 3 entities by words alone, 3 of them waiting for a vector: no current entity"
        in said
    )
    assert re.search(r"stale +e1", said)
    run("search", "e1", "--strict", code=TEMPORARY)
    lease_and_embed(world)
    said = run("search", "e1", both=True)
    assert "searched" not in said
    assert "stale" not in said


def test_searches_count_against_the_limit_that_workers_have(run: Run, provider: ProviderServer) -> None:
    """C12. Guard: that the search is booked. Without it the second one asks the provider too."""
    asked = {
        "EMBEDDING_PROVIDER": "openai", "OPENAI_BASE_URL": provider.url, "OPENAI_API_KEY": "of-no-worth",
        "OPENAI_EMBEDDING_MODEL": "test-model", "NEO4J_VECTOR_DIMENSIONS": "256",
        "EMBEDDING_RATE_LIMIT_TOKENS": "1", "EMBED_REQUEST_TIMEOUT_MS": "1000",
    }  # fmt: skip
    run("search", "one", code=NOTHING, **asked)
    assert "no room for a search" in run("search", "two", "--strict", both=True, code=TEMPORARY, **asked)
    assert "no room for a search" in run("search", "two", both=True, code=NOTHING, **asked)
    assert provider.inputs == ["one"]


def test_search_before_init_says_to_run_it(world: World, run: Run) -> None:
    said = run("search", "x", code=REFUSED, NEO4J_VECTOR_INDEX="none_yet", EMBED_ENTITY_LABEL="Unprepared")
    assert said.strip() == "neo4j-queue: vector index none_yet is missing: run neo4j-queue init"


def test_a_search_goes_on_while_the_jobs_database_is_frozen(
    world: World, run: Run, services: LocalServices, provider: ProviderServer
) -> None:
    """D8. Seen failing with a booking without a bound: the search took as long as the driver waits."""
    world.create(2)
    asked = {
        "EMBEDDING_PROVIDER": "openai", "OPENAI_BASE_URL": provider.url, "OPENAI_API_KEY": "of-no-worth",
        "OPENAI_EMBEDDING_MODEL": "test-model", "NEO4J_VECTOR_DIMENSIONS": "256",
        "EMBEDDING_RATE_LIMIT_TOKENS": "100",
    }  # fmt: skip
    began = time.monotonic()
    run("search", "e1", **asked)
    usual_s = time.monotonic() - began
    with frozen(services.jobs.pid):
        began = time.monotonic()
        said = run("search", "text of e1", both=True, **asked)
        assert time.monotonic() - began < usual_s + 3
    assert "e1" in said
    assert "unexpected" not in said


def lease_and_embed(world: World) -> None:
    """The work of a worker, in this process."""
    from neo4j_queue.embedders import open_embedder
    from neo4j_queue.pipeline import Pipeline

    pipeline = Pipeline(world.queue, world.graph, open_embedder(world.settings), worker="here", lock_ms=6000)
    for lease in world.queue.lease("here", batches=5).leases:
        pipeline.run(lease.token, lease.job_ids)


def test_init_creates_what_is_missing_and_check_tells(world: World, run: Run) -> None:
    assert run("init", "--check", "--json")["ok"] is True
    names = {"EMBED_ENTITY_LABEL": "CliInit", "NEO4J_VECTOR_INDEX": "cli_init"}
    try:
        assert run("init", "--check", "--json", code=78, **names)["ok"] is False
        answer = run("init", "--json", **names)
        assert answer["ok"] is True
        assert "cli_init" in answer["databases"][1]["created"]
        assert "nothing to do" in run("init", **names)
    finally:
        for row in world.graph_db.read(
            "SHOW INDEXES YIELD name, labelsOrTypes WHERE 'CliInit' IN labelsOrTypes"
        ):
            world.graph_db.write(f"DROP CONSTRAINT `{row['name']}` IF EXISTS")
            world.graph_db.write(f"DROP INDEX `{row['name']}` IF EXISTS")


def test_init_makes_nothing_of_a_name_that_looks_like_a_mistake(world: World, run: Run) -> None:
    """Seen failing: a constraint over a property that no node has, and the full-text index on the wrong one."""
    world.create(1)
    before = world.graph_db.read("SHOW INDEXES YIELD name RETURN name ORDER BY name")
    for names in ({"EMBED_ENTITY_KEY": "nmae"}, {"EMBED_TEXT_PROPERTIES": "name,observation"}):
        said = run("init", code=78, **names)
        assert "did you mean" in said
        assert "init --yes takes it as it is" in said
    assert world.graph_db.read("SHOW INDEXES YIELD name RETURN name ORDER BY name") == before


def bad(answer: dict[str, Any]) -> dict[str, str]:
    return {each["subject"]: each["detail"] for each in answer["findings"] if each["grade"] == "bad"}


def test_doctor_names_each_broken_thing(world: World, run: Run) -> None:
    """E7, but for a wrong password and a server without APOC, which need servers of their own."""
    doctor = ("doctor", "--json")
    assert set(bad(run(*doctor, code=1))) == {"control worker", "embed worker"}
    assert "dimensions" in bad(run(*doctor, code=1, NEO4J_VECTOR_DIMENSIONS="128"))["graph schema"]
    assert "cli_none" in bad(run(*doctor, code=1, NEO4J_VECTOR_INDEX="cli_none"))["graph schema"]
    swapped = {
        "NEO4J_URI": world.settings.embed_job_database_uri,
        "NEO4J_PASSWORD": world.environment["EMBED_JOB_DATABASE_PASSWORD"],
        "NEO4J_DATABASE": world.settings.embed_job_database_name,
        "EMBED_JOB_DATABASE_URI": world.settings.neo4j_uri,
        "EMBED_JOB_DATABASE_PASSWORD": world.environment["NEO4J_PASSWORD"],
        "EMBED_JOB_DATABASE_NAME": world.settings.neo4j_database,
    }
    assert "swapped" in bad(run(*doctor, code=1, **swapped))["two databases"]
    assert "broker" in bad(run(*doctor, code=1, CELERY_BROKER_URL="redis://127.0.0.1:9/0"))
    world.jobs_db.write("MATCH (c:QueueControl) SET c.schema_version = 0")
    assert "neo4j-queue init" in bad(run(*doctor, code=1))["jobs schema"]


@pytest.mark.parametrize(
    "command", [["status"], ["health"], ["enqueue", "e1"], ["repair"], ["doctor"]], ids=" ".join
)
def test_a_worker_with_other_settings_is_named(world: World, run: Run, command: list[str]) -> None:
    world.create(2)
    others = world.settings.model_copy(update={"embed_entity_label": "Book"})
    world.queue.census.record([Worker("old@host", 1, fingerprint=fingerprint(others, world.graph_db))])
    # For `health` and `doctor` a worker that answers no question is no worker.
    code = 1 if command[0] in ("health", "doctor") else 0
    said = run(*command, both=True, code=code, **LONG_REMEMBERED)
    assert "worker old@host runs with other settings than yours (label)" in said
    assert "restart with the right ones" in said


def test_a_worker_with_the_same_settings_is_not_named(world: World, run: Run) -> None:
    same = fingerprint(world.settings, world.graph_db)
    world.queue.census.record([Worker("good@host", 1, fingerprint=same)])
    assert "other settings" not in run("status", both=True, **LONG_REMEMBERED)


def test_doctor_is_content_when_everything_is_there(world: World, run: Run) -> None:
    world.celery.control()
    world.celery.embed()
    (worker,) = wait_until(world.queue.census.workers, within_s=30, what="the census knows the embed worker")

    answer = run("doctor", "--json", **LONG_REMEMBERED)
    assert answer["ok"] is True
    assert not bad(answer)
    assert worker.fingerprint == fingerprint(world.settings, world.graph_db)
    graph = next(each for each in answer["findings"] if each["subject"] == "graph database")
    assert "5." in graph["detail"]
    assert "community" in graph["detail"]

"""What `watch` and `logs` make of what they see, without any service."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from neo4j.exceptions import ServiceUnavailable

from neo4j_queue.cli import app, watch
from neo4j_queue.cli.watch import RATE_OVER_S, Rate
from neo4j_queue.queue import EmbedQueue
from neo4j_queue.settings import Settings


def test_the_rate_is_that_of_the_last_half_minute() -> None:
    rate = Rate()
    assert rate.of(0, 100) is None
    assert rate.of(1_000, 110) == 10.0
    assert rate.of(2_000, 110) == 5.0
    later = round(RATE_OVER_S * 1000)
    assert rate.of(later + 1_500, 110) == 0.0, "the first two looks are too old to count"


def test_a_clean_up_between_two_looks_is_no_negative_rate() -> None:
    """Fails without the look at `ended < self._seen[-1][1]`."""
    rate = Rate()
    rate.of(0, 10_000)
    assert rate.of(1_000, 4_000) is None
    assert rate.of(2_000, 4_020) == 20.0


def test_two_looks_in_one_millisecond_know_no_rate() -> None:
    rate = Rate()
    rate.of(5, 1)
    assert rate.of(5, 1) is None


def test_a_jobs_database_that_goes_away_is_told_and_the_watch_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Fails without the `except` in `_look_once`: a restart would end the watch of a night."""
    told: list[str] = []

    def away(*_: object) -> watch.Look:
        raise ServiceUnavailable("no route to 127.0.0.1:7688")

    monkeypatch.setattr(watch, "look", away)
    queue = cast("EmbedQueue", SimpleNamespace(settings=Settings(_env_file=None)))  # type: ignore[call-arg]
    for _ in range(2):
        watch._look_once(queue, Rate(), lambda _: None, told.append)
    place = "EMBED_JOB_DATABASE_URI=bolt://127.0.0.1:7688"
    said = f"{place} cannot be reached: no route to 127.0.0.1:7688"
    assert told == 2 * [f"the jobs database does not answer: {said}"]


def logs(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        app(["logs", *arguments], prog_name="neo4j-queue")
    return int(ended.value.code or 0)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    for place in (
        "graph/console.log",
        "demo/graph/console.log",
        "demo/logs/embed.log",
        "demo/other/readme.txt",
    ):
        path = tmp_path / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"".join(b"line %d of %s\n" % (n, place.encode()) for n in range(30)))
    return tmp_path


def test_logs_finds_those_of_the_services_and_of_the_demo(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert logs("--directory", str(directory), "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert list(found) == ["graph", "demo/graph", "demo/embed"]
    assert logs("demo/embed", "--directory", str(directory), "-n", "2") == 0
    path = directory / "demo/logs/embed.log"
    assert capsys.readouterr().out.splitlines() == [
        f"{path}:",
        "line 28 of demo/logs/embed.log",
        "line 29 of demo/logs/embed.log",
    ]


def test_a_log_that_is_not_there_or_is_no_text_ends_no_command_in_a_stack(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (directory / "graph/console.log").write_bytes(b"\xff\x00\x1b[31mred\n")
    assert logs("graph", "--directory", str(directory)) == 0
    assert "\x1b" not in capsys.readouterr().out, "a terminal obeys nothing of it"
    assert logs("beat", "--directory", str(directory)) == 1
    assert "no log of beat; there are graph, demo/graph, demo/embed" in capsys.readouterr().err
    assert logs("--directory", str(directory / "nowhere")) == 0
    assert "Nothing was ever started in" in capsys.readouterr().out

"""E3, as far as it needs no services: every line is JSON with the fields of the contract, and no secret leaves."""

import ast
import json
import os
import re
import select
import socket
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

REPOSITORY = Path(__file__).parents[2]
LEVELS = {"debug", "info", "warning", "error", "critical"}

PRELUDE = """
import logging, os, sys, threading, warnings
from neo4j_queue import log as logging_setup
from neo4j_queue.settings import Settings

settings = Settings(
    _env_file=None,
    openai_api_key='sk-"quoted"-key',
    neo4j_username="ann",
    neo4j_password="pass/word",
    celery_broker_url="redis://:broker-pw@127.0.0.1:6379/0",
    **OVERRIDES,
)
logging_setup.configure("worker", settings)
log = logging_setup.get_logger()
"""


def run(body: str, **overrides: Any) -> str:
    """Runs a program that logs, in a process of its own (logging is a thing of the process); returns stderr."""
    program = f"OVERRIDES = {overrides!r}\n{PRELUDE}\n{textwrap.dedent(body)}"
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("LOG_", "NEO4J_"))}
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        env=environment,
        timeout=60,
        check=False,
    )
    assert done.stdout == ""
    return done.stderr


def lines_of(body: str, **overrides: Any) -> list[dict[str, Any]]:
    return [json.loads(line) for line in run(body, **overrides).splitlines()]


def test_a_line_has_the_fields_of_the_contract_first_and_then_its_own() -> None:
    (line,) = lines_of(
        """
        logging_setup.set_worker_id("embed@host")
        log.info("embedding_job_started", job_id="j1", attempt=1, entity_name="Zoë")
        """
    )
    assert list(line) == ["timestamp", "level", "event", "worker_id", "job_id", "attempt", "entity_name"]
    assert line["timestamp"].endswith("Z")
    assert (line["level"], line["worker_id"], line["entity_name"]) == ("info", "embed@host", "Zoë")


def test_levels_are_the_words_of_the_methods_and_below_the_level_nothing_is_written() -> None:
    lines = lines_of(
        """
        for method in ("debug", "info", "warning", "error", "critical"):
            getattr(log, method)(method)
        """,
        log_level="WARNING",
    )
    assert [(line["level"], line["event"]) for line in lines] == [
        (w, w) for w in ("warning", "error", "critical")
    ]


def test_records_of_other_libraries_become_the_same_lines() -> None:
    lines = lines_of(
        """
        logging.getLogger("celery.worker").info("Task %s received", "t1")
        logging.getLogger("anything").error("wrong %d arguments", "x")
        warnings.warn("old call")
        """
    )
    assert {line["event"] for line in lines} == {"library_message"}
    assert [line["message"] for line in lines[:2]] == ["Task t1 received", "wrong %d arguments"]
    assert "old call" in lines[2]["message"]
    assert [line["logger"] for line in lines] == ["celery.worker", "anything", "py.warnings"]


def test_libraries_that_log_each_message_are_quiet_even_at_debug() -> None:
    lines = lines_of(
        """
        for name in ("openai._base_client", "neo4j.io", "httpx2", "kombu.connection"):
            logging.getLogger(name).info("the text of an entity")
            logging.getLogger(name).warning("worth knowing")
        """,
        log_level="DEBUG",
    )
    assert [line["message"] for line in lines] == ["worth knowing"] * 4


def test_a_warning_that_a_library_repeats_is_counted() -> None:
    """The driver warns of each retry: 375 lines in 75 s of a jobs database that was away, from one worker."""
    lines = lines_of(
        """
        from neo4j_queue import log as ours
        now = [0.0]
        ours._repeats._clock = lambda: now[0]
        driver = logging.getLogger("neo4j.session")
        for second in range(70):
            now[0] = float(second)
            driver.warning("retried in %ss", second)
            driver.error("of another level")
        driver.warning("of another kind")
        """
    )
    warned = [line for line in lines if line["level"] == "warning"]
    assert [(line["message"], line.get("left_out")) for line in warned] == [
        ("retried in 0s", None),
        ("retried in 30s", 29),
        ("retried in 60s", 29),
        ("of another kind", None),
    ]
    assert len(lines) == len(warned) + 70


EVENT = re.compile(r"`([a-z_]+)`")


def test_every_event_is_in_the_table_with_its_levels() -> None:
    """Of what is written in the source: `log.warning("name", ...)`."""
    table: dict[str, set[str]] = {}
    for row in (REPOSITORY / "docs" / "reference" / "log-events.md").read_text().splitlines():
        cells = row.split("|")
        if len(cells) > 4:
            for event in EVENT.findall(cells[1]):
                table[event] = {word.strip() for word in cells[2].split(",")}
    missing = {
        (event, level)
        for package in ("neo4j_queue", "tasks")
        for path in (REPOSITORY / package).rglob("*.py")
        for event, level in _events_of(path)
        if level not in table.get(event, set())
    }
    assert not missing


def _events_of(path: Path) -> Iterator[tuple[str, str]]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.Call(func=ast.Attribute(attr=level), args=[ast.Constant(value=str(event)), *_]) if (
                level in LEVELS and re.fullmatch("[a-z]+(_[a-z]+)+", event)
            ):
                yield event, level


def test_an_exception_becomes_error_and_a_bounded_stack_in_the_same_line() -> None:
    first, second, third, fourth = lines_of(
        """
        try:
            raise ValueError("x" * 20000)
        except ValueError as error:
            log.exception("own")
            log.error("given", exc_info=error, error="said by the caller")
            logging.getLogger("celery").exception("foreign")
        threading.Thread(target=lambda: 1 / 0).start()
        """
    )
    assert first["error_class"] == "ValueError"
    assert len(first["stack"]) <= 8_000
    assert second["error"] == "said by the caller"
    assert third["logger"] == "celery"
    assert (fourth["event"], fourth["error_class"]) == ("uncaught_exception", "ZeroDivisionError")


def test_an_uncaught_error_of_the_program_is_a_line_too() -> None:
    (line,) = lines_of("raise RuntimeError('at the end')")
    assert (line["level"], line["event"], line["error"]) == ("critical", "uncaught_exception", "at the end")


@pytest.mark.parametrize("style", ["json", "console"])
def test_no_secret_leaves_by_any_way(style: str) -> None:
    text = run(
        """
        import urllib.parse
        key, password = settings.openai_api_key.get_secret_value(), settings.neo4j_password.get_secret_value()
        log.info("event with " + key, field=password, nested=[{"deep": ("a", key)}], object=Exception(key))
        log.info("in urls", url="bolt://other:unknown-pw@h", quoted="x" + urllib.parse.quote(password, safe=""))
        logging.getLogger("kombu").error("cannot connect to %s", settings.celery_broker_url)
        try:
            raise RuntimeError(f"refused: {key}")
        except RuntimeError:
            log.exception("failed")
        raise SystemError(key)
        """,
        log_format=style,
    )
    assert text.count("***") >= 8
    for secret in ("sk-", "quoted", "pass/word", "pass%2Fword", "broker-pw", "unknown-pw"):
        assert secret not in text.replace("quoted=", "").replace('"quoted":', "")


def test_anything_can_be_a_value_and_the_line_stays_one_line() -> None:
    lines = lines_of(
        r"""
        import datetime, uuid
        log.info("odd", set={1}, when=datetime.datetime(2030, 1, 1), id=uuid.UUID(int=1), raw=b"\xff")
        log.info("broken", lone="\ud800", separators="a\u2028b\nc")
        """
    )
    assert lines[0]["when"] == "2030-01-01T00:00:00"
    assert lines[1]["separators"] == "a\u2028b\nc"


def test_nobody_reading_the_log_stops_nothing() -> None:
    program = f"OVERRIDES = {{}}\n{PRELUDE}\nos.close(2)\nlog.info('unheard')\nprint('went on')"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout) == (0, "went on\n")


def test_lines_of_many_threads_do_not_mix() -> None:
    lines = lines_of(
        """
        def chatter(n):
            for i in range(200):
                log.info("line", thread=n, filler="x" * 500)
        threads = [threading.Thread(target=chatter, args=(n,)) for n in range(8)]
        [t.start() for t in threads]; [t.join() for t in threads]
        """
    )
    assert len(lines) == 1_600


@pytest.mark.parametrize("kind", ["pipe", "socket"])
def test_a_reader_that_stopped_reading_holds_no_job_up(kind: str) -> None:
    """Lines are dropped, at a wait for the first alone; when it reads again, each line is whole.

    Guard: `select` before the write. Without it the process hung in `os.write`, for good.
    """
    if kind == "pipe":
        theirs, ours = os.pipe()
    else:
        one, other = socket.socketpair()
        theirs, ours = one.detach(), other.detach()
    program = """
import sys
from neo4j_queue import log
log.WRITE_TIMEOUT_S = 0.5
log.configure("cli")
logger = log.get_logger()
for n in range(2_000):
    logger.info("a_line", n=n, long="x" * 1_000)
print("done", flush=True)
sys.stdin.read(1)
logger.info("the_last")
"""
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=ours,
        text=True,
    )
    os.close(ours)
    try:
        assert process.stdout
        assert process.stdin
        assert select.select([process.stdout], [], [], 30)[0], "it hangs"
        assert process.stdout.readline() == "done\n"
        reader = os.fdopen(theirs, "rb")
        first = os.read(reader.fileno(), 1 << 20)
        process.stdin.write("x")
        process.stdin.flush()
        lines = (first + reader.read()).decode().splitlines()
        reader.close()
        assert process.wait(10) == 0
    finally:
        process.kill()
        process.wait()
    assert json.loads(lines[-1])["event"] == "the_last"
    broken = [line for line in lines if not line.startswith("{") or not line.endswith("}")]
    assert len(broken) <= 1, "the one that was being written when it stopped"
    assert len(lines) < 2_000


@pytest.mark.parametrize("key", ["entity_name", "event", "error", "names", "stack"])
def test_no_value_steers_a_terminal(key: str) -> None:
    """Failed for every key but `names`, a list: an entity's name could set the title of the window."""
    steering = "'\\x1b]0;owned\\x07\\x9b31m'"
    values = {"event": "", "names": f", names=[{steering}]"}.get(key, f", {key}={steering}")
    event = steering if key == "event" else "'an_event'"
    said = run(f"log.info({event}{values})", log_format="console")
    assert "owned" in said
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", re.sub(r"\x1b\[[0-9;]*m", "", said))

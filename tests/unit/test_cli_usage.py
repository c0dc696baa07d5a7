"""The words after `neo4j-queue`: what is refused as wrong usage, in one sentence and with exit code 2."""

import json
import os
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import get_args, get_type_hints

import pytest
import typer
from typer.models import ParameterInfo

from neo4j_queue.cli import app, selection
from neo4j_queue.cli import embed as embed_commands
from neo4j_queue.cli import jobs as jobs_commands
from neo4j_queue.errors import ErrorCategory
from neo4j_queue.jobs import FailureReason, Status
from neo4j_queue.reconcile import repair
from tasks import arguments


def exit_code(arguments: list[str]) -> int:
    """Runs the command line in this process: for what ends before any setting is read."""
    with pytest.raises(SystemExit) as ended:
        app(arguments, prog_name="neo4j-queue")
    return int(ended.value.code or 0)


@pytest.mark.parametrize(
    "arguments",
    [
        ["no-such-command"],
        ["health", "--no-such-option"],
        ["jobs", "list", "--status", "lost"],
        ["jobs", "list", "--limit", "0"],
        ["pause", "-1"],
        ["pause", "0"],
        ["pause", "soon"],
        ["pause", "inf"],
        ["pause", "nan"],
        ["pause", "1e12"],
        ["jobs", "list", "--limit", "99999999999999999999"],
        ["retry", "--limit", "0"],
        ["retry", "--status", "-5"],
        ["release"],
        ["repair", "--limit", "0"],
        ["repair", "--limit", "abc"],
        ["repair", "--limit", "1001"],
        ["repair", "Ada", "--limit", "-3"],
        ["enqueue"],
        ["enqueue", "--all", "--missing"],
        ["enqueue", "--all", "Ada"],
        ["usage", "--hours", "0"],
        ["usage", "--hours", "49"],
        ["jobs", "list", "--since", "yesterday"],
        ["jobs", "list", "--since", "2h ago"],
        ["jobs", "list", "--since", "99999999999d"],
        ["jobs", "list", "--since", "999999999d"],
        ["release", "--orphaned", "--worker", "w"],
        ["release", "some-id", "--orphaned"],
        ["--log-format", "xml", "health"],
    ],
    ids=" ".join,
)
def test_wrong_usage_is_exit_code_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(arguments) == 2
    assert "Error: " in capsys.readouterr().err


@pytest.mark.parametrize("seconds", ["0", "-5", "-0.5", "soon", "nan"])
def test_a_pause_that_is_no_time_is_refused_as_such(seconds: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Guard: `ignore_unknown_options` of `pause`; without it a number below zero is "no such option"."""
    assert exit_code(["pause", seconds]) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert f"'{seconds}' is not a number of seconds, more than 0 and at most 31,536,000." in error


@pytest.mark.parametrize(
    "arguments",
    [
        ["search", b"\xff\xfe"],
        ["enqueue", "Ada", b"\xff"],
        ["jobs", "list", "--entity", b"\xe9"],
        ["jobs", "show", b"\xff"],
        ["repair", b"\xff"],
        ["release", b"\xff"],
        ["retry", b"\xff"],
        ["pause", "5", b"--reason=\xff"],
        ["--log-format", b"\xff", "health"],
        ["down", "--directory", b"\xff"],
        [b"\xff"],
    ],
    ids=str,
)
def test_what_is_not_utf8_is_wrong_usage_in_one_sentence(
    arguments: list[str | bytes], capsys: pytest.CaptureFixture[str]
) -> None:
    words = [os.fsdecode(word) for word in arguments]  # as the interpreter hands them over
    assert exit_code(words) == 2
    shown = next(word for word in words if not word.isascii())
    escaped = os.fsencode(shown).decode("utf-8", "backslashreplace")
    assert capsys.readouterr().err.splitlines()[-1].endswith(f"{escaped} is not text in UTF-8.")


@pytest.mark.parametrize("arguments", [["--question", " "], ["--question", "compress a file", "-q", ""]])
def test_a_blank_question_of_the_demo_is_wrong_usage(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("neo4j_queue.demo.runner.run", lambda *_, **__: None)
    assert exit_code(["demo", *arguments]) == 2
    assert "--question: is blank" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["up", "down", "demo"])
def test_a_file_is_no_directory_for_services(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("neo4j_queue.demo.runner.run", lambda *_, **__: None)
    assert exit_code([command, "--directory", __file__]) == 2
    assert "is a file" in capsys.readouterr().err


def test_down_says_that_services_were_never_in_the_directory(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    missing = tmp_path / "typo"
    assert exit_code(["down", "--directory", str(missing)]) == 1
    assert capsys.readouterr().err == f"neo4j-queue: nothing runs in {missing}: it does not exist\n"
    assert exit_code(["down", "--directory", str(tmp_path), "--json"]) == 1
    answer = capsys.readouterr()
    assert json.loads(answer.out)["stopped"] == []
    assert answer.err == f"neo4j-queue: nothing runs in {tmp_path}: services were never started there\n"
    assert list(tmp_path.iterdir()) == []  # nothing of ours is left in it


def test_a_name_for_an_http_status_is_answered_with_the_names(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(["retry", "--status", "worker_lost"]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "'worker_lost' is not an HTTP status (100 to 599)" in said
    assert "--category TRANSIENT, PERMANENT, CRITICAL" in said
    assert "--reason permanent_error, max_retries_exceeded, worker_lost" in said


def test_the_help_of_pause_has_the_unit(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(["pause", "--help"]) == 0
    assert "How long, in seconds." in capsys.readouterr().out


def parameters() -> Iterator[tuple[str, type, ParameterInfo]]:
    """Each argument and option of each command: where it is, its type without `None`, what typer knows of it."""
    groups = [app, *(group.typer_instance for group in app.registered_groups)]
    for command in (command for group in groups if group for command in group.registered_commands):
        assert command.callback is not None
        for name, hint in get_type_hints(command.callback, include_extras=True).items():
            if name == "return" or hint is typer.Context:  # not what a person writes
                continue
            kind, info = get_args(hint)
            kind = next((each for each in get_args(kind) if each is not type(None)), kind)
            yield f"{command.callback.__name__} {name}", kind, info


def test_every_number_of_the_command_line_has_bounds() -> None:
    seen = 0
    for where, kind, info in parameters():
        if kind not in (int, float) or info.parser is not None or where == "mock_provider seed":
            continue
        seen += 1
        assert info.min is not None, where
        assert kind is int or info.max is not None, f"{where}: infinity is a float too"
    assert seen > 15


def test_every_choice_of_the_command_line_may_be_written_in_either_case() -> None:
    choices = [
        (where, info)
        for where, kind, info in parameters()
        if isinstance(kind, type) and issubclass(kind, Enum)
    ]
    assert len(choices) > 4
    assert [where for where, info in choices if info.case_sensitive] == []


def test_the_bounds_of_repair_are_those_of_its_task() -> None:
    assert (embed_commands.LIMIT, embed_commands.LIMIT_MAX) == (repair.LIMIT_DEFAULT, repair.LIMIT_MAX)


def test_the_words_of_the_options_are_those_of_the_queue() -> None:
    assert [*jobs_commands.JobStatus] == [*Status]
    assert [*selection.Category] == [*ErrorCategory]
    assert [*selection.Reason] == [*FailureReason]
    assert (selection.HTTP_MIN, selection.HTTP_MAX) == (arguments.HTTP_MIN, arguments.HTTP_MAX)


@pytest.mark.parametrize("verbose", [False, True])
def test_the_demo_shows_what_libraries_log_only_when_asked_for(
    verbose: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[bool] = []
    monkeypatch.setattr(
        "neo4j_queue.log.configure", lambda *_, quiet_libraries=False, **__: seen.append(quiet_libraries)
    )
    monkeypatch.setattr("neo4j_queue.demo.runner.run", lambda *_, **__: None)
    assert exit_code([*(["--verbose"] if verbose else []), "demo"]) == 0
    assert seen == [not verbose]

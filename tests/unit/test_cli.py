"""The command line as far as it needs no services: help, usage, exit codes, errors in one clear line each."""

import json
import os
import pty
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from neo4j_queue import cli
from neo4j_queue.cli import app

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-m", "neo4j_queue.cli"]
# Nothing listens on the discard port of a loopback address.
NOWHERE = "bolt://127.0.0.1:9"
COMMANDS = [
    ["init"],
    ["doctor"],
    ["status"],
    ["health"],
    ["watch"],
    ["logs"],
    ["explain"],
    ["jobs", "list"],
    ["jobs", "show"],
    ["enqueue"],
    ["repair"],
    ["retry"],
    *(["dead", act] for act in ("list", "show", "stats", "replay", "purge", "export")),
    ["release"],
    ["pause"],
    ["resume"],
    ["cleanup"],
    ["search"],
    ["usage"],
    ["mcp"],
    ["serve"],
    ["mock-provider"],
]


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """No settings from outside, and no service anywhere."""
    ours = ("NEO4J_", "EMBED", "OPENAI_", "MOCK_", "CELERY_", "REDIS_", "LOG_", "HEALTH_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    return {
        **kept,
        "PYTHONPATH": str(ROOT),
        "NEO4J_URI": NOWHERE,
        "EMBED_JOB_DATABASE_URI": NOWHERE,
        "CELERY_BROKER_URL": "redis://127.0.0.1:9/0",
        "COLUMNS": "100",
        "HOME": str(tmp_path),
    }


def run(environment: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *arguments],
        env=environment,
        cwd=environment["HOME"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def said(stderr: str) -> list[str]:
    """The lines for people: not the log lines."""
    return [line for line in stderr.splitlines() if not line.startswith("{")]


def exit_code(arguments: list[str]) -> int:
    """Runs the command line in this process: for what ends before any setting is read."""
    with pytest.raises(SystemExit) as ended:
        app(arguments, prog_name="neo4j-queue")
    return int(ended.value.code or 0)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_each_help_has_examples_that_begin_with_the_command(
    command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code([*command, "--help"]) == 0
    help_text = capsys.readouterr().out
    examples = help_text.partition("Examples:\n")[2]
    assert examples.lstrip().startswith("neo4j-queue " + " ".join(command)), help_text


def test_help_loads_no_driver_no_celery_and_no_tables(environment: dict[str, str]) -> None:
    program = (
        "import sys\nfrom neo4j_queue.cli import app\n"
        "try:\n    app(['--help'])\nexcept SystemExit:\n    pass\n"
        "heavy = {'neo4j', 'celery', 'kombu', 'redis', 'pydantic', 'rich', 'openai', 'structlog'}\n"
        "print('loaded:', sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout.splitlines()[-1] == "loaded: []"


@pytest.mark.parametrize(
    "command",
    [["status"], ["jobs", "list"], ["dead", "list"], ["dead", "stats"], ["watch", "--count", "1"]],
    ids=" ".join,
)
def test_a_look_at_the_queue_loads_no_arrays_and_no_celery(
    command: list[str], environment: dict[str, str]
) -> None:
    """Its first answer comes within half a second. Seen to fail with a plain import of the driver, which takes numpy
    along."""
    program = (
        "import sys\nfrom neo4j_queue.cli import app\n"
        f"try:\n    app({command!r})\nexcept SystemExit:\n    pass\n"
        "heavy = {'numpy', 'pandas', 'celery', 'kombu', 'redis', 'openai', 'rich.traceback', 'neo4j'}\n"
        "print('loaded:', sorted(heavy & set(sys.modules)))\n"
        "import numpy, neo4j"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout.splitlines()[-1] == "loaded: ['neo4j']"


@pytest.mark.parametrize("command", [["health"], ["status"], ["init"], ["repair", "x"]], ids=" ".join)
def test_a_database_that_is_down_is_exit_code_75_in_one_line(
    command: list[str], environment: dict[str, str]
) -> None:
    environment["EMBED_JOB_DATABASE_URI"] = "bolt://127.0.0.1:10"
    done = run(environment, *command)
    assert done.returncode == 75, done.stderr
    (line,) = said(done.stderr)
    assert line.startswith("neo4j-queue: ")
    assert done.stdout == ""


@pytest.mark.parametrize("command", [["health"], ["status"], ["init"], ["doctor"], ["cleanup"]], ids=" ".join)
def test_wrong_settings_are_exit_code_78_with_one_line_for_each(
    command: list[str], environment: dict[str, str]
) -> None:
    environment |= {"HEALTH_PORT": "http", "EMBED_BATCH_SIZE": "0", "EMBED_JOB_RETENTION_DAYS": "45"}
    done = run(environment, *command)
    assert done.returncode == 78
    lines = said(done.stderr if command != ["doctor"] else done.stdout)
    named = [name for line in lines for name in re.findall(r"\b(HEALTH_PORT|EMBED_\w+)=", line)]
    assert sorted(named) == ["EMBED_BATCH_SIZE", "EMBED_JOB_RETENTION_DAYS", "HEALTH_PORT"]


def test_the_same_store_is_exit_code_78(environment: dict[str, str]) -> None:
    environment["EMBED_JOB_DATABASE_NAME"] = "neo4j"
    done = run(environment, "health")
    assert done.returncode == 78
    assert "EMBED_JOB_DATABASE_URI" in said(done.stderr)[0]


def test_cleanup_without_a_retention_is_exit_code_78(environment: dict[str, str]) -> None:
    done = run(environment, "cleanup")
    assert done.returncode == 78
    assert said(done.stderr)[0].startswith("neo4j-queue: EMBED_JOB_RETENTION_DAYS is missing")


def test_doctor_names_each_thing_that_is_down_and_goes_on(environment: dict[str, str]) -> None:
    environment["EMBED_JOB_DATABASE_URI"] = "bolt://127.0.0.1:10"
    done = run(environment, "doctor", "--json")
    assert done.returncode == 1
    answer = json.loads(done.stdout)
    bad = {finding["subject"]: finding for finding in answer["findings"] if finding["grade"] == "bad"}
    assert set(bad) == {"settings", "graph database", "jobs database", "broker"}
    assert all(finding["advice"] for finding in bad.values())
    assert answer["ok"] is False


def test_a_misspelt_variable_of_env_file_or_environment_is_named_in_a_line_each(
    environment: dict[str, str],
) -> None:
    (Path(environment["HOME"]) / ".env").write_text("EMBED_ENTITY_LABLE=Book\nEMBED_BATCH_SIZE=5\n")
    environment |= {"EMBEDDING_PROVDER": "mock", "EMBED_JOB_DATABASE_URI": "bolt://127.0.0.1:10"}
    done = run(environment, "health")
    assert said(done.stderr)[:2] == [
        "neo4j-queue: warning: EMBED_ENTITY_LABLE (in .env) is not a setting; did you mean EMBED_ENTITY_LABEL?",
        "neo4j-queue: warning: EMBEDDING_PROVDER is not a setting; did you mean EMBEDDING_PROVIDER?",
    ]


@pytest.mark.parametrize("command", [["health"], ["status"], ["doctor"]], ids=" ".join)
def test_without_env_file_the_defaults_are_named_when_a_database_does_not_answer(
    command: list[str], environment: dict[str, str]
) -> None:
    """Only those that are defaults, and nothing once there is a `.env`. Seen to fail before there was such a line."""
    del environment["NEO4J_URI"]
    environment["EMBED_JOB_DATABASE_URI"] = "bolt://127.0.0.1:10"
    expected = (
        f"there is no .env in {environment['HOME']}; these are defaults: NEO4J_URI=bolt://127.0.0.1:7687"
    )
    done = run(environment, *command)
    text = " ".join((done.stderr + done.stdout).split())
    assert expected in text
    assert "EMBED_JOB_DATABASE_URI=" not in text.partition(expected)[2]
    (Path(environment["HOME"]) / ".env").write_text("EMBED_BATCH_SIZE=5\n")
    assert "there is no .env" not in run(environment, *command).stderr


def test_a_search_without_env_file_names_the_defaults_when_the_graph_does_not_answer(
    environment: dict[str, str],
) -> None:
    """A search needs the graph alone, so the address that does not answer is that of the graph."""
    environment["NEO4J_URI"] = "bolt://127.0.0.1:10"
    del environment["EMBED_JOB_DATABASE_URI"]
    done = run(environment, "search", "x")
    text = " ".join((done.stderr + done.stdout).split())
    assert f"there is no .env in {environment['HOME']}; these are defaults: EMBED_JOB_DATABASE_URI=" in text


def test_an_answer_that_is_no_silence_of_a_service_names_no_defaults(environment: dict[str, str]) -> None:
    del environment["NEO4J_URI"]
    assert "there is no .env" not in run(environment, "cleanup").stderr


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"EMBEDDING_PROVIDER": "local", "NEO4J_VECTOR_DIMENSIONS": "512"}, "gives 256"),
        ({"EMBEDDING_PROVIDER": "openai", "NEO4J_VECTOR_DIMENSIONS": "256"}, "gives 1536"),
        (
            {"EMBEDDING_PROVIDER": "openai", "OPENAI_EMBEDDING_MODEL": "mine"},
            "the width of its vectors is not known",
        ),
    ],
)
def test_init_refuses_a_width_that_the_model_does_not_give(
    environment: dict[str, str], wrong: dict[str, str], named: str
) -> None:
    """Before anything is made. Seen to fail: without the check it asks the databases."""
    done = run(environment | wrong, "init")
    assert done.returncode == 78, done.stderr
    assert named in said(done.stderr)[0]


def test_debug_shows_where_an_error_comes_from(environment: dict[str, str]) -> None:
    environment["EMBED_JOB_DATABASE_URI"] = "bolt://127.0.0.1:10"
    assert "Traceback" in run(environment, "--debug", "health").stderr


def test_log_lines_are_json_unless_console_is_asked_for(environment: dict[str, str]) -> None:
    environment["EMBED_JOB_DATABASE_URI"] = "bolt://127.0.0.1:10"
    logged = [
        line for line in run(environment, "--verbose", "health").stderr.splitlines() if line.startswith("{")
    ]
    assert logged
    assert all(json.loads(line)["worker_id"].startswith("cli@") for line in logged)
    console = run(environment, "--verbose", "--log-format", "Console", "health").stderr
    assert not any(line.startswith("{") for line in console.splitlines())
    assert "[warning" in console


@pytest.mark.parametrize(("level", "shown"), [("", False), ("INFO", False), ("DEBUG", True)])
def test_what_libraries_log_is_shown_only_when_asked_for(
    environment: dict[str, str], level: str, shown: bool
) -> None:
    environment["EMBED_JOB_DATABASE_URI"] = "bolt://127.0.0.1:10"
    if level:
        environment["LOG_LEVEL"] = level
    assert ("Transaction failed" in run(environment, "health").stderr) is shown


def test_a_choice_in_capitals_is_taken(environment: dict[str, str]) -> None:
    done = run(environment, "jobs", "list", "--status", "FAILED")
    assert done.returncode == 75, done.stderr  # the database is asked, and is away


@pytest.fixture
def deaf_server() -> Iterator[int]:
    """A port that accepts connections and never says a word."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener.getsockname()[1]


def test_an_interrupt_is_exit_code_130_with_a_line(environment: dict[str, str], deaf_server: int) -> None:
    environment["EMBED_JOB_DATABASE_URI"] = f"bolt://127.0.0.1:{deaf_server}"
    process = subprocess.Popen(
        [*COMMAND, "health"], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        wait_for_connection(process.pid, deaf_server)
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=30)
    finally:
        process.kill()
    assert process.returncode == 130
    assert said(stderr) == ["neo4j-queue: interrupted; what was done until then is kept"]


# Sends SIGINT to the program at the moment when it imports a certain module, from where nothing may escape.
INTERRUPT_AT_IMPORT = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == os.environ["INTERRUPT_AT"]:
            os.kill(os.getpid(), signal.SIGINT)
            for _ in range(1000): pass  # the handler runs here
sys.meta_path.insert(0, Finder())
"""
SCRIPT = "import sys; sys.argv[0] = 'neo4j-queue'; from neo4j_queue.cli import main; main()"


@pytest.mark.parametrize("start", [["-m", "neo4j_queue.cli"], ["-c", SCRIPT]], ids=["module", "script"])
@pytest.mark.parametrize(
    "module", ["typer", "neo4j_queue.cli.status", "structlog", "neo4j", "neo4j_queue.queue.embed_queue"]
)
def test_an_interrupt_while_loading_is_exit_code_130_without_a_trace(
    environment: dict[str, str], tmp_path: Path, start: list[str], module: str
) -> None:
    """Seen to fail without the handler."""
    (tmp_path / "sitecustomize.py").write_text(INTERRUPT_AT_IMPORT)
    environment |= {"PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}", "INTERRUPT_AT": module}
    done = subprocess.run(
        [sys.executable, *start, "health"],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "neo4j-queue: interrupted\n")


def test_an_interrupt_before_the_command_line_is_read_is_exit_code_130(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(**_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "app", interrupted)
    with pytest.raises(SystemExit) as ended:
        cli.main()
    cli.interrupt.as_usual()
    assert (ended.value.code, capsys.readouterr().err) == (130, "neo4j-queue: interrupted\n")


def wait_for_connection(pid: int, port: int) -> None:
    """Until the process has connected: only then does it wait for an answer, and is out of its start-up."""
    import psutil

    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        if any(c.raddr and c.raddr.port == port for c in psutil.Process(pid).net_connections()):
            return
        time.sleep(0.02)
    raise AssertionError("the command never connected")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_completes_commands_and_options(shell: str, environment: dict[str, str]) -> None:
    """By the protocol of typer: fails with `add_completion=False`."""
    environment |= {"_NEO4J_QUEUE_COMPLETE": f"complete_{shell}"}
    environment |= {"COMP_WORDS": "neo4j-queue de", "COMP_CWORD": "1"}
    environment |= {"_TYPER_COMPLETE_ARGS": "neo4j-queue de", "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    program = "from neo4j_queue.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=environment,
        cwd=environment["HOME"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert {"dead", "demo"} <= set(re.findall(r"\w+", done.stdout)), done.stdout + done.stderr


def test_dead_letters_are_not_replayed_or_purged_by_a_slip(environment: dict[str, str]) -> None:
    """Without a selection it is a usage error, as are two of them; before any database is asked."""
    for words in (["replay"], ["purge"], ["replay", "x", "--all"], ["purge", "--all", "--status", "400"]):
        assert exit_code(["dead", *words]) == 2


@pytest.mark.parametrize(
    ("chosen", "is_json"), [({}, False), ({"LOG_FORMAT": "json"}, True), ({"LOG_FORMAT": "console"}, False)]
)
def test_a_person_at_a_terminal_gets_no_json_between_the_words(
    chosen: dict[str, str], is_json: bool, environment: dict[str, str]
) -> None:
    """Fails while LOG_FORMAT's default holds at a terminal too. In a pipe nothing changes: other tests read it."""
    ours, theirs = pty.openpty()
    program = (
        "from neo4j_queue.cli import session; session.load_settings()\n"
        "from neo4j_queue.log import get_logger; get_logger().warning('told')"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        env=environment | chosen,
        cwd=environment["HOME"],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    assert process.wait(60) == 0
    said = os.read(ours, 4096).decode()
    os.close(ours)
    assert "told" in said
    assert ('"event":"told"' in said) is is_json

"""The runner of Celery processes, with small programs in place of Celery: ready, ended, stubborn, left behind."""

import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from neo4j_queue.local_services import celery_processes
from neo4j_queue.local_services.celery_processes import CeleryProcess, CeleryProcesses, ProcessLostError
from tests.waiting import wait_until

# A loaded machine takes seconds to start Python.
WAIT_S = 30.0
READY = """print('{"event": "celery@host ready."}', flush=True)\n"""
SLEEP = "import time; time.sleep(600)\n"
STUBBORN = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n{READY}{SLEEP}"
# Its child does not end with it, as the pool of a main process that was killed does not.
PARENT = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {STUBBORN!r}])\n{SLEEP}"
# Ends well only when all three of a test were asked to within five seconds.
ENDS_TOGETHER = f"""
import pathlib, signal, sys, time
def end(*_):
    pathlib.Path(f"{{sys.argv[2]}}.asked").touch()
    for _ in range(250):
        if len(list(pathlib.Path().glob("*.asked"))) == 3:
            sys.exit(0)
        time.sleep(0.02)
    sys.exit(1)
signal.signal(signal.SIGTERM, end)
{READY}{SLEEP}"""

Make = Callable[..., CeleryProcesses]


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    """Processes that run a program with their role as its argument, started; killed at the end."""
    made: list[CeleryProcesses] = []

    def make(program: str, *roles: str, stop_within_s: float = WAIT_S) -> CeleryProcesses:
        monkeypatch.setattr(celery_processes, "CELERY", (sys.executable, "-c", program))
        # As Celery's arguments: the first is the command, by which the runner knows what "ready" looks like.
        words = {role: ("worker", role) for role in roles}
        processes = CeleryProcesses(words, {}, tmp_path, stop_within_s=stop_within_s)
        made.append(processes)
        return processes.__enter__()

    yield make
    for processes in made:
        for process in processes.all:
            process.kill()


def group(process: CeleryProcess) -> list[psutil.Process]:
    assert process.pid is not None
    main = psutil.Process(process.pid)
    return [main, *main.children(recursive=True)]


def test_a_process_is_ready_when_its_log_says_so(make: Make) -> None:
    (process,) = make(READY + SLEEP, "embed").all
    assert process.wait_ready(WAIT_S)
    assert process.exit_code() is None


def test_a_process_that_has_ended_is_not_ready(make: Make) -> None:
    (process,) = make("raise SystemExit(78)", "embed").all
    assert not process.wait_ready(WAIT_S)
    assert process.exit_code() == 78


def test_a_process_that_is_not_ready_in_time_is_named_with_the_end_of_its_log(make: Make) -> None:
    (process,) = make("print('waiting for Redis', flush=True)\n" + SLEEP, "embed").all
    wait_until(process.tail, within_s=WAIT_S, what="it has written its line")
    with pytest.raises(ProcessLostError, match=r"embed is not ready after 0 s; .*\nwaiting for Redis"):
        process.wait_ready(0)


def test_the_log_of_an_earlier_start_makes_nothing_ready(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails when the whole log is searched."""
    (process,) = make(READY + SLEEP, "embed").all
    process.wait_ready(WAIT_S)
    process.kill()
    monkeypatch.setattr(celery_processes, "CELERY", (sys.executable, "-c", SLEEP))
    process.start()
    with pytest.raises(ProcessLostError):
        process.wait_ready(0.5)


def test_what_ignores_sigterm_is_killed_after_its_time_with_its_group(make: Make) -> None:
    """Fails (the child lives on) when only the main process is killed."""
    processes = make(PARENT, "embed", stop_within_s=0.5)
    (process,) = processes.all
    assert wait_until(process.children, within_s=WAIT_S, what="it has a child")
    wait_until(lambda: "ready." in process.tail(), within_s=WAIT_S, what="the child ignores SIGTERM")
    members = group(process)
    processes.stop()
    _, alive = psutil.wait_procs(members, WAIT_S)
    assert alive == []
    assert process.children() == []


def test_a_main_process_that_ignores_sigterm_is_killed_after_its_time(make: Make) -> None:
    processes = make(STUBBORN, "embed", stop_within_s=0.5)
    (process,) = processes.all
    process.wait_ready(WAIT_S)
    began = time.monotonic()
    processes.stop()
    assert process.exit_code() == -signal.SIGKILL
    assert 0.5 <= time.monotonic() - began < WAIT_S


def test_all_are_asked_before_the_first_is_waited_for_and_the_last_one_first(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fails when they are asked in the order of their starts, and when each is waited for before the next is asked."""
    asked: list[str] = []
    send = CeleryProcess.send

    def record(process: CeleryProcess, signum: signal.Signals) -> None:
        asked.append(process.name)
        send(process, signum)

    monkeypatch.setattr(CeleryProcess, "send", record)
    processes = make(ENDS_TOGETHER, "embed", "control", "beat", stop_within_s=10)
    for process in processes.all:
        assert process.wait_ready(WAIT_S)
    processes.stop()
    assert asked == ["beat", "control", "embed"]
    assert [process.exit_code() for process in processes.all] == [0, 0, 0]


def test_check_names_what_has_ended(make: Make) -> None:
    processes = make(READY + SLEEP, "embed", "beat")
    processes.check()
    processes["beat"].kill()
    with pytest.raises(ProcessLostError, match="beat ended with -9"):
        processes.check()

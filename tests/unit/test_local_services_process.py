"""Processes that outlive their starter, and are never confused with those of others."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from neo4j_queue.local_services import ServicesConfig, free_ports
from neo4j_queue.local_services.config import cache_directory, data_directory, port_is_free
from neo4j_queue.local_services.locking import exclusive
from neo4j_queue.local_services.process import ServerProcess
from neo4j_queue.local_services.service import telling_lines

# A loaded machine takes seconds to start Python.
WAIT_S = 30.0
READY = "print('ready', flush=True); time.sleep(600)"
STUBBORN = f"import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); {READY}"
POLITE = f"import time; {READY}"
# Its first thread ends; another one runs on, as those of a large server do for a while after SIGKILL.
HEADLESS = """
import ctypes, threading, time
threading.Thread(target=time.sleep, args=(600,)).start()
print('ready', flush=True)
ctypes.CDLL(None).pthread_exit(None)
"""

Spawn = Callable[[str], ServerProcess]


@pytest.fixture
def spawn(tmp_path: Path) -> Iterator[Spawn]:
    started: list[ServerProcess] = []

    def start(program: str) -> ServerProcess:
        log = tmp_path / "console.log"
        process = ServerProcess.spawn(
            [sys.executable, "-c", program],
            port=1,
            directory=tmp_path,
            log=log,
            record=tmp_path / "process.json",
        )
        started.append(process)
        until(lambda: "ready" in log.read_text())
        return process

    yield start
    for process in started:
        process.kill()


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not holds():
        assert time.monotonic() < deadline, "it did not come true in time"
        time.sleep(0.02)


def test_a_recorded_process_is_found_again(spawn: Spawn, tmp_path: Path) -> None:
    process = spawn(POLITE)
    assert ServerProcess.recorded(tmp_path / "process.json") == process


def test_it_has_a_process_group_of_its_own(spawn: Spawn) -> None:
    process = spawn(POLITE)
    assert os.getpgid(process.pid) == process.pid != os.getpgid(0)


def test_a_process_id_that_was_used_again_is_left_alone(spawn: Spawn, tmp_path: Path) -> None:
    """Fails when `is_alive` compares no start times: then the innocent process is taken for ours, and ended."""
    innocent = spawn(POLITE)
    record = tmp_path / "process.json"
    record.write_text(json.dumps({"pid": innocent.pid, "started": "1", "port": 1}))
    assert ServerProcess.recorded(record) is None
    ServerProcess(innocent.pid, "1", 1).end(grace_s=0.1)
    assert innocent.is_alive()


@pytest.mark.parametrize("content", ["", "{}", "[]", "not json", '{"pid": "x", "started": "", "port": 1}'])
def test_a_damaged_record_is_no_process(content: str, tmp_path: Path) -> None:
    record = tmp_path / "process.json"
    record.write_text(content)
    assert ServerProcess.recorded(record) is None


def test_a_dead_process_is_no_process(spawn: Spawn, tmp_path: Path) -> None:
    process = spawn(POLITE)
    os.kill(process.pid, signal.SIGKILL)
    until(lambda: not process.is_alive())
    assert ServerProcess.recorded(tmp_path / "process.json") is None


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the first thread is no zombie")
def test_a_process_whose_first_thread_alone_has_ended_is_alive(spawn: Spawn) -> None:
    """Fails when `_started` takes each zombie for gone: the process still holds its ports."""
    process = spawn(HEADLESS)
    until(lambda: psutil.Process(process.pid).status() == psutil.STATUS_ZOMBIE)
    assert process.is_alive()


def test_end_waits_until_the_process_is_gone(spawn: Spawn) -> None:
    process = spawn(POLITE)
    process.end(grace_s=WAIT_S)
    assert not Path(f"/proc/{process.pid}").exists()


def test_a_process_that_ignores_sigterm_is_killed_after_its_grace(spawn: Spawn) -> None:
    process = spawn(STUBBORN)
    began = time.monotonic()
    process.end(grace_s=0.5)
    assert not process.is_alive()
    assert 0.5 <= time.monotonic() - began < WAIT_S


def test_a_frozen_process_ends_without_being_killed(spawn: Spawn) -> None:
    """Fails (takes the whole grace) when `end` sends no SIGCONT."""
    process = spawn(POLITE)
    os.kill(process.pid, signal.SIGSTOP)
    began = time.monotonic()
    process.end(grace_s=60)
    assert time.monotonic() - began < WAIT_S


def test_the_output_of_the_last_start_only_is_in_the_log(spawn: Spawn, tmp_path: Path) -> None:
    spawn(POLITE)
    spawn(POLITE)
    assert (tmp_path / "console.log").read_text() == "ready\n"


def test_a_port_with_a_listener_is_not_free() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        assert not port_is_free(listener.getsockname()[1])


def test_a_port_whose_last_connection_is_just_closed_is_free() -> None:
    """Fails when the probe does not set SO_REUSEADDR: the kernel holds such a port for a minute."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = int(listener.getsockname()[1])
        client = socket.create_connection(("127.0.0.1", port))
        server, _ = listener.accept()
        # The side that closes first keeps the port in TIME_WAIT.
        server.close()
        client.close()
    assert port_is_free(port)


def test_free_ports_differ() -> None:
    assert len(set(free_ports(20))) == 20


def test_the_three_ports_must_differ() -> None:
    with pytest.raises(ValueError, match="must differ"):
        ServicesConfig(graph_port=7000, jobs_port=7000)


def test_directories_follow_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", "/home/somebody")
    for name in ("NEO4J_QUEUE_CACHE", "XDG_CACHE_HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    assert cache_directory() == Path("/home/somebody/.cache/neo4j-queue")
    assert data_directory() == Path("/home/somebody/.local/share/neo4j-queue")
    monkeypatch.setenv("XDG_DATA_HOME", "relative/is/invalid")
    assert data_directory() == Path("/home/somebody/.local/share/neo4j-queue")
    monkeypatch.setenv("XDG_CACHE_HOME", "/var/cache/somebody")
    assert cache_directory() == Path("/var/cache/somebody/neo4j-queue")
    monkeypatch.setenv("NEO4J_QUEUE_CACHE", str(tmp_path))
    assert cache_directory() == tmp_path


def test_a_relative_directory_becomes_absolute(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert ServicesConfig(directory=Path("services")).directory == tmp_path / "services"


def test_the_lock_is_waited_for_and_freed_by_the_death_of_its_holder(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    hold = f"""
from neo4j_queue.local_services.locking import exclusive
from pathlib import Path
import time
with exclusive(Path({str(path)!r})):
    {READY}
"""
    with subprocess.Popen([sys.executable, "-c", hold], stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"ready\n"
        waits: list[str] = []

        def on_wait() -> None:
            waits.append("once")
            holder.kill()

        with exclusive(path, on_wait):
            assert waits == ["once"]


def test_telling_lines_prefer_causes_to_the_end_of_the_log(tmp_path: Path) -> None:
    log = tmp_path / "log"
    noise = [f"INFO line {n}" for n in range(20)]
    log.write_text("\n".join([*noise, "Caused by: no space", "\tat a.b.C(C.java:7)", *noise]))
    assert telling_lines(log, re.compile("Caused by")) == "  Caused by: no space"


def test_telling_lines_of_a_short_log_are_all_its_lines(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("Invalid heap\nError: no machine\n")
    assert telling_lines(log, re.compile("Error")) == "  Invalid heap\n  Error: no machine"


@pytest.mark.parametrize("content", [None, "", "\n\n"])
def test_telling_lines_of_nothing_say_so(content: str | None, tmp_path: Path) -> None:
    log = tmp_path / "log"
    if content is not None:
        log.write_text(content)
    assert "empty" in telling_lines(log, re.compile("x"))

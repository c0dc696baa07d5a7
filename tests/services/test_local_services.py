"""Real servers: what runs is found, what dies says why, what is stopped is gone."""

import json
import os
import signal
import socket
import subprocess
import sys
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import replace
from http.client import HTTPConnection
from pathlib import Path

import psutil
import pytest
import redis
from dotenv import dotenv_values
from neo4j.exceptions import AuthError

from neo4j_queue.database import Database
from neo4j_queue.local_services import (
    AlreadyElsewhere,
    LocalServices,
    Neo4jServer,
    PortInUse,
    Progress,
    ServiceFailed,
    ServicesConfig,
    free_ports,
)
from neo4j_queue.local_services.config import silent
from neo4j_queue.local_services.neo4j_files import neo4j_home
from tests.conftest import JAVA_OPTIONS

# Two servers boot on a machine that may be busy with other things.
COMMAND_TIMEOUT_S = 400.0


@pytest.fixture
def elsewhere(tmp_path: Path) -> Iterator[ServicesConfig]:
    """Services of their own, not those of the session; whatever a test leaves running is stopped."""
    graph, jobs, broker = free_ports(3)
    config = ServicesConfig(
        graph, jobs, broker, tmp_path / "services", throwaway=True, java_options=JAVA_OPTIONS
    )
    yield config
    LocalServices(config).down()


def pids(services: LocalServices) -> list[int | None]:
    return [each.pid for each in services.status()]


def is_running(pid: int) -> bool:
    # A zombie waits for its parent to take note; where the first process of a container does not, for ever.
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


def test_a_second_up_finds_what_runs(services: LocalServices) -> None:
    before = pids(services)
    news: list[Progress] = []
    LocalServices(services.config, news.append).up()
    assert None not in before
    assert pids(services) == before
    assert all("already running" in each.message for each in news)


def test_both_databases_have_their_name_and_apoc(services: LocalServices) -> None:
    for server in (services.graph, services.jobs):
        with Database(server.address) as database:
            [row] = database.read("CYPHER 5 CALL db.info() YIELD name RETURN name, apoc.version() AS apoc")
        assert row["name"] == server.database
        assert row["apoc"].startswith("5.26.")


def test_redis_is_a_broker_that_drops_nothing_and_saves_nothing(services: LocalServices) -> None:
    with redis.Redis.from_url(services.redis.url) as client:
        asked = ("maxmemory-policy", "save", "appendonly", "bind")
        assert [client.config_get(name)[name] for name in asked] == ["noeviction", "", "no", "127.0.0.1"]


def test_nobody_enters_without_the_password(services: LocalServices) -> None:
    """Bolt speaks WebSocket to any web page, and every user of a machine reaches its loopback address."""
    for server in (services.graph, services.jobs):
        for entry in ({"username": None, "password": None}, {"password": "neo4j"}):
            with (
                Database(replace(server.address, **entry), retry_time_s=0) as database,
                pytest.raises(AuthError),
            ):
                database.read("RETURN 1")
    with (
        redis.Redis.from_url(services.redis.shown) as client,
        pytest.raises(redis.AuthenticationError),
    ):
        client.ping()
    known = [services.graph.address.password, services.jobs.address.password, services.redis.url]
    for pid in pids(services):
        assert pid is not None
        shown = " ".join(psutil.Process(pid).cmdline())
        assert not [secret for secret in known if secret is None or secret in shown]


def test_services_made_without_passwords_are_given_some_and_keep_their_data(
    elsewhere: ServicesConfig,
) -> None:
    """One of the two servers will do: both are started by the same code."""
    home, directory = neo4j_home(), replace(elsewhere, throwaway=False)
    arguments = ("jobs", elsewhere.jobs_port, "embedding-jobs", directory, home, silent)
    before = Neo4jServer(*arguments)
    before.start()
    with Database(before.address) as database:
        database.write("CREATE (:Survivor {id: 1})")
    before.stop()
    after = Neo4jServer(*arguments, password=lambda: "a-new-password")
    try:
        after.start()
        with Database(after.address) as database:
            assert [row["id"] for row in database.read("MATCH (s:Survivor) RETURN s.id AS id")] == [1]
        with Database(before.address, retry_time_s=0) as database, pytest.raises(AuthError):
            database.read("RETURN 1")
        # A file that was lost and made anew: said at once, not after the five minutes that a start may take.
        lost = Neo4jServer(*arguments, password=lambda: "another-password")
        with pytest.raises(ServiceFailed, match=r"does not know the password of .*passwords\.json"):
            lost.start()
    finally:
        after.stop()


def test_other_ports_for_services_that_run_are_refused(services: LocalServices) -> None:
    config = services.config
    other = replace(config, graph_port=free_ports(1)[0])
    with pytest.raises(AlreadyElsewhere, match=f"already runs on port {config.graph_port}, not on"):
        LocalServices(other).up()


def test_a_port_of_a_stranger_is_named_and_nothing_is_started(elsewhere: ServicesConfig) -> None:
    news: list[Progress] = []
    services = LocalServices(elsewhere, news.append)
    with socket.create_server(("127.0.0.1", elsewhere.redis_port)), pytest.raises(PortInUse) as failure:
        services.up()
    assert f"redis: port {elsewhere.redis_port} is in use" in str(failure.value)
    assert "--redis-port" in str(failure.value)
    assert news == []
    assert pids(services) == [None, None, None]


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        (
            {"db.no_such_setting": "1"},
            "Unrecognized setting. No declared setting with name: db.no_such_setting",
        ),
        ({"db.transaction.timeout": "soon"}, "Error evaluating value for setting 'db.transaction.timeout'"),
    ],
)
def test_a_server_that_dies_at_boot_shows_why(
    settings: dict[str, str], reason: str, elsewhere: ServicesConfig
) -> None:
    services = LocalServices(replace(elsewhere, neo4j_settings=settings))
    with pytest.raises(ServiceFailed) as failure:
        services.up()
    assert reason in failure.value.reason
    assert str(failure.value.log) in str(failure.value)
    # Redis was healthy, but half of the services are of no use to anybody.
    assert pids(services) == [None, None, None]


def test_redis_that_dies_at_boot_shows_why(
    elsewhere: ServicesConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    services = LocalServices(elsewhere)
    command = [*services.redis.prepare(), "--maxmemory", "plenty"]
    monkeypatch.setattr(services.redis, "prepare", lambda: command)
    with pytest.raises(ServiceFailed, match="maxmemory") as failure:
        services.redis.start()
    assert failure.value.service == "redis"


def test_a_single_service_is_killed_and_started_again(services: LocalServices) -> None:
    before = services.redis.pid
    services.redis.kill()
    assert pids(services)[2] is None
    with pytest.raises(redis.ConnectionError), redis.Redis.from_url(services.redis.url) as client:
        client.ping()
    services.redis.start()
    assert pids(services)[2] not in (None, before)
    with redis.Redis.from_url(services.redis.url) as client:
        assert client.ping()


def test_a_killed_database_comes_back_with_its_data(services: LocalServices, jobs_db: Database) -> None:
    jobs_db.write("CYPHER 5 CREATE (:Survivor {id: 1})")
    graph_pid = services.graph.pid
    services.jobs.kill()
    services.jobs.start()
    with Database(services.jobs.address) as again:
        assert [row["id"] for row in again.read("CYPHER 5 MATCH (s:Survivor) RETURN s.id AS id")] == [1]
    assert services.graph.pid == graph_pid


def looked_at(port: int, password: str | None) -> int:
    """The status of Flower's answer to who shows this password."""
    entry = (
        {}
        if password is None
        else {"Authorization": f"Basic {b64encode(f'operator:{password}'.encode()).decode()}"}
    )
    connection = HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("GET", "/tasks", headers=entry)
    try:
        return connection.getresponse().status
    finally:
        connection.close()


def test_up_and_down_by_the_command_line(elsewhere: ServicesConfig, tmp_path: Path) -> None:
    here = tmp_path / "project"
    here.mkdir()
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}

    def command(*arguments: str) -> subprocess.CompletedProcess[str]:
        program = "from neo4j_queue.cli import main; main()"
        return subprocess.run(
            [sys.executable, "-c", program, *arguments, "--directory", str(elsewhere.directory), "--json"],
            cwd=here,
            env=environment,
            capture_output=True,
            text=True,
            timeout=COMMAND_TIMEOUT_S,
            check=False,
        )

    ports = [f"--graph-port={elsewhere.graph_port}", f"--jobs-port={elsewhere.jobs_port}"]
    (flower_port,) = free_ports(1)
    flower = ("--flower", f"--flower-port={flower_port}")
    up = command("up", *ports, f"--redis-port={elsewhere.redis_port}", *flower)
    assert up.returncode == 0, up.stderr
    assert f"graph: ready at bolt://127.0.0.1:{elsewhere.graph_port}" in up.stderr
    answer = json.loads(up.stdout)
    assert answer["env_file"] == str(here / ".env")
    expected = LocalServices(elsewhere).environment()
    assert dotenv_values(here / ".env") == expected
    to_look_at = dotenv_values(answer["services_file"])
    of_flower = to_look_at.pop("NEO4J_QUEUE_FLOWER_PASSWORD")
    assert to_look_at == expected
    for secret in (expected["NEO4J_PASSWORD"], expected["EMBED_JOB_DATABASE_PASSWORD"], of_flower):
        assert secret
        assert secret not in up.stdout + up.stderr
    assert [looked_at(flower_port, each) for each in (None, "wrong", of_flower)] == [401, 401, 200]
    running = [service["pid"] for service in answer["services"]]
    # The command has ended, the servers have not; nor does a Ctrl-C at its terminal reach them.
    assert pids(LocalServices(elsewhere)) == running
    assert os.getpgid(0) not in [os.getpgid(pid) for pid in running]

    (here / ".env").write_text("EMBED_BATCH_SIZE=7\n")
    # A frozen server is stopped as well as one that runs.
    os.kill(running[2], signal.SIGSTOP)
    down = command("down")
    assert down.returncode == 0, down.stderr
    assert json.loads(down.stdout)["stopped"] == ["flower", "graph", "jobs", "redis"]
    assert not [pid for pid in running if is_running(pid)]
    again = command("down")
    assert (again.returncode, json.loads(again.stdout)["stopped"]) == (0, [])
    assert (here / ".env").read_text() == "EMBED_BATCH_SIZE=7\n"

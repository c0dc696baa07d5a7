"""compose.yaml and the image say what the rest of the product says, and what an operator must be able to rely on."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

from neo4j_queue.local_services.compose_env import PASSWORDS
from neo4j_queue.settings import Settings
from neo4j_queue.settings.settings import GRACE_MAX_MS

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "compose.yaml").read_text(encoding="utf-8")
RUN_SERVICE = ROOT / "deploy/docker/run-service"
DATABASES = ("graph", "jobs")
OURS = ("init", "control", "embed", "beat", "serve", "flower")
LASTING = ("control", "embed", "beat", "serve", "flower")


@pytest.fixture(scope="module")
def services() -> dict[str, dict[str, Any]]:
    """The services as Compose reads them."""
    found: dict[str, dict[str, Any]] = yaml.safe_load(TEXT)["services"]
    return found


def test_one_service_builds_the_image_and_the_others_take_it(services: dict[str, dict[str, Any]]) -> None:
    """Several builds of one name at once fail with "already exists" under BuildKit."""
    assert [name for name, service in services.items() if "build" in service] == ["init"]
    assert {services[name]["image"] for name in OURS} == {"neo4j-queue"}
    # Else Compose would look for the name in a public registry, where it could be somebody else's.
    assert {services[name]["pull_policy"] for name in OURS} == {"never"}


def test_every_service_has_a_health_check_a_bound_on_memory_and_a_restart(
    services: dict[str, dict[str, Any]],
) -> None:
    for name, service in services.items():
        assert service["mem_limit"], name
        assert service["restart"].startswith(("unless-stopped", "on-failure:")), name
        assert service["healthcheck"].get("test") or name == "init", name
    for name in DATABASES:
        check = services[name]["healthcheck"]
        assert "7687" in " ".join(check["test"])
        seconds = int(check["interval"].rstrip("s")) * check["retries"] + int(
            check["start_period"].rstrip("s")
        )
        assert seconds >= 240, "a server took 110 s on busy cores"
        memory = services[name]["environment"]
        assert {"heap", "pagecache"} <= {part for key in memory for part in key.split("_")}


def test_ports_are_published_on_the_loopback_address_alone(services: dict[str, dict[str, Any]]) -> None:
    published = [port for service in services.values() for port in service.get("ports", ())]
    assert len(published) == 5
    assert all(port.startswith("127.0.0.1:${") for port in published)


def test_no_service_starts_without_its_password_and_none_is_in_a_command(
    services: dict[str, dict[str, Any]],
) -> None:
    for name in PASSWORDS:
        uses = re.findall(rf"\$\{{{name}([^}}]*)}}", TEXT)
        assert uses
        assert set(uses) == {":?run neo4j-queue setup compose"}
    for name, service in services.items():
        said = f"{service.get('command', '')} {service.get('healthcheck', '')}"
        assert not [password for password in PASSWORDS if password in said], name
    assert services["flower"]["environment"]["FLOWER_BASIC_AUTH"].startswith("operator:${")


def test_apoc_is_allowed_where_it_is_needed_and_no_further(services: dict[str, dict[str, Any]]) -> None:
    """The container gives a plugin that it installs every right, unless a setting says which."""
    prefix = "NEO4J_dbms_security_procedures_"
    jobs, graph = (services[name]["environment"] for name in ("jobs", "graph"))
    allowed = [each for each in jobs[f"{prefix}allowlist"].split(",") if each.startswith("apoc")]
    used = {
        procedure
        for file in (ROOT / "neo4j_queue/cypher").rglob("*.cypher")
        for procedure in re.findall(r"CALL (apoc[\w.]+)", file.read_text(encoding="utf-8"))
    }
    on_jobs = {procedure for procedure in used if not procedure.startswith("apoc.trigger.")}
    assert set(allowed) == on_jobs
    assert "apoc" not in jobs[f"{prefix}unrestricted"]
    assert graph["NEO4J_PLUGINS"] == "${NEO4J_QUEUE_GRAPH_PLUGINS:-[]}"
    assert [each for each in graph[f"{prefix}allowlist"].split(",") if each.startswith("apoc")] == [
        "apoc.trigger.*"
    ]


def test_redis_is_bounded_and_drops_nothing(services: dict[str, dict[str, Any]]) -> None:
    command = "\n".join(services["redis"]["command"])
    for line in ("maxmemory 256mb", "maxmemory-policy noeviction", 'save ""', "requirepass"):
        assert line in command


def test_a_wrong_setting_stops_a_service_instead_of_a_restart_without_an_end(
    services: dict[str, dict[str, Any]],
) -> None:
    for name in LASTING:
        assert str(services[name]["command"]).startswith("run-service "), name
    assert services["init"]["restart"] == "on-failure:5"
    assert "run-service" not in services["init"]["command"]


def test_each_container_is_given_more_time_than_the_longest_grace(
    services: dict[str, dict[str, Any]],
) -> None:
    for name in OURS:
        assert int(services[name]["stop_grace_period"].rstrip("s")) * 1000 >= GRACE_MAX_MS + 10_000


def test_the_health_server_is_reached_on_the_port_of_the_settings(
    services: dict[str, dict[str, Any]],
) -> None:
    port = Settings.model_fields["health_port"].default
    serve = services["serve"]
    assert serve["ports"] == [f"127.0.0.1:${{HEALTH_PORT:-{port}}}:{port}"]
    assert serve["environment"]["HEALTH_PORT"] == str(port)
    assert f":{port}/livez" in " ".join(serve["healthcheck"]["test"])


def test_the_image_is_built_in_two_stages_and_runs_as_a_numbered_user() -> None:
    lines = (ROOT / "Dockerfile").read_text(encoding="utf-8").splitlines()
    assert len([line for line in lines if line.startswith("FROM ")]) == 2
    assert "USER 10001" in lines
    assert [line for line in lines if line.startswith("HEALTHCHECK")]
    sent = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    copied = [
        word
        for line in lines
        if line.startswith("COPY") and "--from" not in line
        for word in line.split()[1:-1]
    ]
    assert copied
    assert not [path for path in copied if f"!{path}" not in sent], (
        "what is copied must be sent to the builder"
    )


# -- run-service, with small programs in place of the services ------------------------------------------------

WITHIN_S = 10.0
Run = Callable[..., subprocess.Popen[str]]
# Acts on signals as a worker does, which installs its handlers itself.
GIVES_BACK = """
import signal, sys, time
def stop(*_):
    time.sleep(0.5)
    print("gave back", flush=True)
    sys.exit(3)
signal.signal(signal.SIGTERM, stop)
signal.signal(signal.SIGQUIT, stop)
print("ready", flush=True)
while True:
    time.sleep(0.05)
"""


@pytest.fixture
def run_service() -> Iterator[Run]:
    """Starts `run-service` with a program; what is left of it is killed."""
    started: list[subprocess.Popen[str]] = []

    def start(*program: str) -> subprocess.Popen[str]:
        service = subprocess.Popen(
            ["sh", str(RUN_SERVICE), *program],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        started.append(service)
        return service

    yield start
    for service in started:
        with suppress(ProcessLookupError):
            os.killpg(service.pid, signal.SIGKILL)
        service.communicate()


@pytest.mark.parametrize("code", [0, 1, 75, 130])
def test_any_other_exit_code_is_passed_on(code: int, run_service: Run) -> None:
    service = run_service("sh", "-c", f"exit {code}")
    assert service.wait(WITHIN_S) == code
    assert service.communicate()[1] == ""


def test_after_exit_code_78_it_says_so_and_waits_to_be_stopped(run_service: Run) -> None:
    """Without the wait a restart policy would start it again, without an end."""
    service = run_service("sh", "-c", "echo refused >&2; exit 78")
    assert service.stderr is not None
    assert service.stderr.readline() == "refused\n"
    held = json.loads(service.stderr.readline())
    assert (held["event"], held["exit_code"]) == ("service_held", 78)
    assert ".env" in held["problem"]
    with pytest.raises(subprocess.TimeoutExpired):
        service.wait(0.5)
    service.send_signal(signal.SIGTERM)
    assert service.wait(WITHIN_S) == 78


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGQUIT])
def test_a_signal_reaches_the_service_which_ends_in_its_own_time(
    number: signal.Signals, run_service: Run
) -> None:
    """A worker gives its batches back after SIGTERM; ended at once it could not."""
    service = run_service(sys.executable, "-c", GIVES_BACK)
    assert service.stdout is not None
    assert service.stdout.readline() == "ready\n"
    began = time.monotonic()
    service.send_signal(number)
    assert service.wait(WITHIN_S) == 3
    assert time.monotonic() - began >= 0.5
    assert service.stdout.readline() == "gave back\n"

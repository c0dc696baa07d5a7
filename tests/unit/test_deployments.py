"""deploy/k8s and deploy/systemd: what they start exists, what they set is a setting, and what an operator relies on."""

import configparser
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.main import get_command

from neo4j_queue.cli import app
from neo4j_queue.settings import Settings
from neo4j_queue.settings.settings import GRACE_MAX_MS
from tasks import routes

ROOT = Path(__file__).parents[2]
K8S = ROOT / "deploy/k8s"
SYSTEMD = ROOT / "deploy/systemd"
SETTINGS = {name.upper() for name in Settings.model_fields} | {"REDIS_URL"}
QUEUES = {routes.CONTROL, routes.EMBED}
CELERY_COMMANDS = {"worker", "beat", "flower"}


def manifests() -> list[dict[str, Any]]:
    """Every object of deploy/k8s."""
    return [
        each
        for file in sorted(K8S.glob("*.yaml"))
        for each in yaml.safe_load_all(file.read_text())
        if "metadata" in each
    ]


def pods() -> dict[str, dict[str, Any]]:
    """The pod of each workload, by its name."""
    return {
        each["metadata"]["name"]: each["spec"]["template"]["spec"]
        for each in manifests()
        if each["kind"] in ("Deployment", "Job")
    }


def the(kind: str, name: str) -> dict[str, Any]:
    """The object of this kind and name."""
    (found,) = [each for each in manifests() if (each["kind"], each["metadata"]["name"]) == (kind, name)]
    return found


def check_command(words: list[str]) -> None:
    """Fails for a command that this product does not have."""
    program, *arguments = [words[0].rpartition("/")[2], *words[1:]]
    if program == "celery":
        # Quiet: its banner is no line of JSON.
        assert arguments[:3] == ["-q", "-A", "tasks"]
        assert arguments[3] in CELERY_COMMANDS
        if "-Q" in arguments:
            assert arguments[arguments.index("-Q") + 1] in QUEUES
    else:
        assert program == "neo4j-queue"
        assert arguments[0] in get_command(app).commands  # type: ignore[attr-defined]


def compose_commands() -> list[list[str]]:
    """What compose.yaml starts of ours."""
    services = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]
    commands = [service["command"] for service in services.values() if service["image"] == "neo4j-queue"]
    split = [shlex.split(each) if isinstance(each, str) else each for each in commands]
    return [words[1:] if words[0] == "run-service" else words for words in split]


def test_the_commands_of_every_deployment_exist() -> None:
    of_k8s = [container["command"] for pod in pods().values() for container in pod["containers"]]
    of_systemd = [
        shlex.split(line.partition("=")[2])
        for unit in SYSTEMD.glob("*.service")
        for line in unit.read_text().splitlines()
        if line.startswith("ExecStart=")
    ]
    assert len(of_k8s) == 5
    assert len(of_systemd) == 4
    for words in (*of_k8s, *of_systemd, *compose_commands()):
        check_command(words)


@pytest.mark.parametrize("name", ["settings.env", "secrets.env.example"])
def test_every_name_that_is_set_is_a_setting(name: str) -> None:
    lines = [line for line in (K8S / name).read_text().splitlines() if line and not line.startswith("#")]
    names = {line.partition("=")[0] for line in lines}
    assert names <= SETTINGS
    secret = {each.upper() for each in Settings.secret_names()} | {"CELERY_BROKER_URL"}
    assert bool(names & secret) is (name == "secrets.env.example")


def test_kustomization_lists_every_file_and_no_secret_is_among_them() -> None:
    kustomization = yaml.safe_load((K8S / "kustomization.yaml").read_text())
    files = {file.name for file in K8S.glob("*.yaml")} - {"kustomization.yaml", "hpa.yaml"}
    assert set(kustomization["resources"]) == files
    assert not (K8S / "secrets.env").exists()
    assert "secrets.env" in (ROOT / ".gitignore").read_text().split()


def test_pods_are_not_root_and_write_nothing_but_tmp() -> None:
    for name, pod in pods().items():
        assert pod["securityContext"]["runAsNonRoot"] is True, name
        assert pod["automountServiceAccountToken"] is False, name
        for container in pod["containers"]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
            assert container["resources"]["limits"]["memory"]
            assert [mount["mountPath"] for mount in container["volumeMounts"]] == ["/tmp"]


def test_there_is_one_beat_and_the_old_one_goes_before_the_new_one_comes() -> None:
    beat = the("Deployment", "neo4j-queue-beat")["spec"]
    assert (beat["replicas"], beat["strategy"]["type"]) == (1, "Recreate")


def test_workers_have_more_time_than_the_longest_grace_and_no_probe_that_an_outage_of_redis_fails() -> None:
    for role in ("control", "embed"):
        pod = pods()[f"neo4j-queue-{role}"]
        assert pod["terminationGracePeriodSeconds"] * 1000 >= GRACE_MAX_MS + 10_000
        (container,) = pod["containers"]
        assert "livenessProbe" not in container
        assert f"{role}@$HOSTNAME" in container["readinessProbe"]["exec"]["command"][-1]
        assert f"{role}@%h" in container["command"]


def test_selectors_name_the_pods_that_they_mean() -> None:
    roles = {name.removeprefix("neo4j-queue-") for name in pods()}
    for each in manifests():
        spec = each.get("spec", {})
        selector = spec.get("selector", {})
        labels = selector.get("matchLabels", selector)
        component = labels.get("app.kubernetes.io/component")
        if component is not None:
            assert component in roles, each["metadata"]["name"]


def test_the_number_of_workers_follows_a_metric_that_is_served() -> None:
    (metric,) = the("HorizontalPodAutoscaler", "neo4j-queue-embed")["spec"]["metrics"]
    wanted = metric["external"]["metric"]
    reference = (ROOT / "docs/reference/metrics.md").read_text()
    (line,) = [line for line in reference.splitlines() if line.startswith(f"| `{wanted['name']}{{status}}`")]
    assert f"`{wanted['selector']['matchLabels']['status']}`" in line


def test_a_wrong_setting_ends_the_init_job_at_once() -> None:
    policy = the("Job", "neo4j-queue-init")["spec"]["podFailurePolicy"]["rules"]
    assert policy[0]["onExitCodes"]["values"] == [78]
    assert policy[0]["action"] == "FailJob"


@pytest.mark.parametrize("unit", sorted(SYSTEMD.glob("*.service")), ids=lambda unit: unit.name)
def test_a_unit_stops_at_a_wrong_setting_and_comes_back_after_anything_else(unit: Path) -> None:
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read_string(unit.read_text())
    service = parser["Service"]
    assert service["RestartPreventExitStatus"] == "78"
    assert service["Restart"] == "always"
    assert service["NoNewPrivileges"] == "yes"
    if "worker" in service["ExecStart"]:
        assert service["KillMode"] == "mixed"
        assert int(service["TimeoutStopSec"]) * 1000 >= GRACE_MAX_MS + 10_000
    assert parser["Install"]["WantedBy"] == "neo4j-queue.target"
    # A percent sign of Celery's is written twice: systemd has its own.
    assert not re.search(r"(?<!%)%h", unit.read_text())


def test_systemd_understands_the_units(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("NO TEST OF UNITS BY SYSTEMD: systemd-analyze is missing")
    for unit in SYSTEMD.iterdir():
        # It looks whether the program is there.
        text = unit.read_text().replace("/opt/neo4j-queue/.venv/bin/celery", "/bin/true")
        (tmp_path / unit.name).write_text(text.replace("/opt/neo4j-queue/.venv/bin/neo4j-queue", "/bin/true"))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *map(str, sorted(tmp_path.glob("*.service")))],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    ours = [line for line in done.stderr.splitlines() if str(tmp_path) in line]
    assert ours == []

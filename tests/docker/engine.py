"""A Docker engine of its own, and images that stand in for the official ones where no registry can be reached.

    python -m tests.docker.engine prepare     install what is missing (Debian, root), make the images
    python -m tests.docker.engine stop        stop an engine that was left running

The engine keeps everything below one directory, beside any other engine of the machine. The stand-ins have the names
that `compose.yaml` and the Dockerfile use: Debian with Python 3.11, Debian with redis-server, Debian with Java and the
Neo4j files of `neo4j-queue up`. What was tested on them is our own files; the official images are not.
"""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from neo4j_queue.local_services.config import cache_directory, silent
from neo4j_queue.local_services.neo4j_files import fetch

ROOT = Path(__file__).parents[2]
STAND_INS = Path(__file__).parent / "stand_ins"
SUITE = "bookworm"
# The engine, its first file systems, and Compose where there is no plug-in of today.
PACKAGES = ("docker.io", "debootstrap", "docker-compose")
START_WITHIN_S = 60.0
STOP_WITHIN_S = 60.0
POLL_S = 0.2
JAVA = "openjdk-17-jre-headless"


class EngineError(Exception):
    """The engine or an image cannot be had here; the message says why."""


@dataclass(frozen=True)
class Image:
    """A stand-in: its name, the packages in it, and what it starts."""

    name: str
    packages: tuple[str, ...]
    changes: tuple[str, ...]


# Without the wheels of the product's packages, which change with the lock.
BASE = Image(
    "neo4j-queue-stand-in:python", ("python3", "python3-venv", "ca-certificates"), ('CMD ["python3"]',)
)
PYTHON = "python:3.11-slim"
PYTHON_DOCKERFILE = f"""\
FROM {BASE.name}
COPY wheels /wheels
COPY pip.conf /etc/pip.conf
"""
REDIS = Image("redis:7", ("redis-server", "redis-tools"), ('CMD ["redis-server"]',))
NEO4J = Image(
    "neo4j:5.26-community",
    ("python3", "ca-certificates", JAVA),
    ('ENTRYPOINT ["/startup/docker-entrypoint"]', 'CMD ["neo4j"]'),
)


def why_not() -> str | None:
    """Why there can be no engine here; None when there can."""
    if os.geteuid() != 0:
        return "an engine needs root"
    missing = [name for name in ("dockerd", "docker", "debootstrap") if shutil.which(name) is None]
    if missing:
        return f"{', '.join(missing)} missing: python -m tests.docker.engine prepare"
    return None


class Engine:
    """One `dockerd`, with everything below `directory`."""

    def __init__(self, directory: Path | None = None) -> None:
        self.directory = directory or cache_directory() / "docker"
        self._socket = self.directory / "docker.sock"

    @property
    def environment(self) -> dict[str, str]:
        """The environment in which `docker` means this engine."""
        # The classic builder: its successor is a plug-in of its own.
        return {**os.environ, "DOCKER_HOST": f"unix://{self._socket}", "DOCKER_BUILDKIT": "0"}

    def run(
        self, *command: str, within_s: float = 600.0, check: bool = True, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        """Runs a program with this engine; raises `EngineError` with the end of its output when it fails."""
        done = subprocess.run(
            command,
            env={**self.environment, **environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=within_s,
            check=False,
        )
        if check and done.returncode:
            tail = "\n".join((done.stdout + done.stderr).splitlines()[-15:])
            raise EngineError(f"`{' '.join(command)}` failed ({done.returncode}):\n{tail}")
        return done

    def start(self) -> None:
        """Starts the engine, unless it runs."""
        if self.answers():
            return
        self.directory.mkdir(parents=True, exist_ok=True)
        storage = "overlay2" if "overlay" in Path("/proc/filesystems").read_text() else "vfs"
        command = [
            "dockerd",
            *("--host", f"unix://{self._socket}", "--pidfile", str(self._pid_file)),
            *("--data-root", str(self.directory / "data"), "--exec-root", str(self.directory / "exec")),
            *("--storage-driver", storage),
        ]
        with (self.directory / "dockerd.log").open("wb") as log:
            subprocess.Popen(
                command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True
            )
        self._wait(START_WITHIN_S, self.answers, "the engine does not answer")

    def answers(self) -> bool:
        """True while the engine runs."""
        return self._socket.exists() and self.run("docker", "version", check=False).returncode == 0

    def stop(self) -> None:
        """Stops the engine and what runs in it, by the process id that it wrote."""
        with suppress(FileNotFoundError, ProcessLookupError):
            pid = int(self._pid_file.read_text())
            for container in self.run("docker", "ps", "-q", check=False).stdout.split():
                self.run("docker", "rm", "--force", container, check=False)
            os.kill(pid, signal.SIGTERM)
            self._wait(
                STOP_WITHIN_S, lambda: not Path(f"/proc/{pid}").exists() or _is_zombie(pid), "it runs on"
            )

    def has(self, image: Image) -> bool:
        """True if the stand-in was made."""
        return bool(self.run("docker", "images", "-q", image.name).stdout.strip())

    def prepare_images(self) -> None:
        """Makes the stand-ins that are missing; a minute or two each."""
        for image, finish in ((BASE, None), (REDIS, None), (NEO4J, _finish_neo4j)):
            if self.has(image):
                continue
            began = time.monotonic()
            tree = self.directory / "tree"
            shutil.rmtree(tree, ignore_errors=True)
            packages = ",".join(image.packages)
            self.run("debootstrap", "--variant=minbase", f"--include={packages}", SUITE, str(tree))
            if finish is not None:
                finish(self, tree)
            _import(self, tree, image)
            shutil.rmtree(tree)
            print(f"{image.name} (stand-in) made in {time.monotonic() - began:.0f} s", flush=True)
        self._add_wheels()

    def _add_wheels(self) -> None:
        """Puts the wheels of the product's packages where pip looks: containers reach no registry."""
        lock = ROOT / "requirements.lock"
        made_of = sha256(lock.read_bytes() + (ROOT / "pyproject.toml").read_bytes()).hexdigest()
        label = '{{index .Config.Labels "made-of"}}'
        found = self.run("docker", "image", "inspect", "--format", label, PYTHON, check=False).stdout.strip()
        if found == made_of:
            return
        context = self.directory / "python"
        shutil.rmtree(context, ignore_errors=True)
        wheels = context / "wheels"
        wheels.mkdir(parents=True)
        download = [sys.executable, "-m", "pip", "download", "--quiet", "--dest", str(wheels)]
        # The last one is wanted by a Python 3.11 that is older than the one that runs this.
        wanted = (f"{ROOT}[local,mcp]", "hatchling", "async-timeout")
        self.run(*download, "--constraint", str(lock), *wanted)
        (context / "pip.conf").write_text("[global]\nno-index = true\nfind-links = /wheels\n")
        (context / "Dockerfile").write_text(PYTHON_DOCKERFILE)
        self.run("docker", "build", "--label", f"made-of={made_of}", "--tag", PYTHON, str(context))
        shutil.rmtree(context)

    @property
    def _pid_file(self) -> Path:
        return self.directory / "docker.pid"

    @staticmethod
    def _wait(within_s: float, condition: object, what: str) -> None:
        assert callable(condition)
        deadline = time.monotonic() + within_s
        while not condition():
            if time.monotonic() > deadline:
                raise EngineError(f"{what} after {within_s:.0f} s")
            time.sleep(POLL_S)


def _is_zombie(pid: int) -> bool:
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    return True


def _import(engine: Engine, tree: Path, image: Image) -> None:
    shutil.rmtree(tree / "var/cache/apt", ignore_errors=True)
    shutil.rmtree(tree / "var/lib/apt/lists", ignore_errors=True)
    changes = [word for change in image.changes for word in ("-c", change)]
    with subprocess.Popen(["tar", "-C", str(tree), "-c", "."], stdout=subprocess.PIPE) as packed:
        done = subprocess.run(
            ["docker", "import", *changes, "-", image.name],
            stdin=packed.stdout,
            env=engine.environment,
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode:
        raise EngineError(f"docker import of {image.name}: {done.stderr}")


def _finish_neo4j(_engine: Engine, tree: Path) -> None:
    home = fetch(silent)
    place = tree / "var/lib/neo4j"
    shutil.copytree(home / "lib", place / "lib")
    shutil.copytree(home / "plugins", place / "labs")
    # A volume, where one is mounted.
    (tree / "data").mkdir()
    (tree / "startup").mkdir()
    shutil.copy(STAND_INS / "neo4j_entrypoint.py", tree / "startup/docker-entrypoint")
    (tree / "startup/docker-entrypoint").chmod(0o755)


def install() -> None:
    """Installs what is missing, on Debian as root."""
    absent = [name for name in ("dockerd", "docker", "debootstrap") if shutil.which(name) is None]
    if not absent and compose_command({**os.environ}) is not None:
        return
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for words in (("update",), ("install", "--yes", "--no-install-recommends", *PACKAGES, "iptables")):
        subprocess.run(["apt-get", "-qq", *words], env=environment, check=True)


def compose_command(environment: Mapping[str, str]) -> Sequence[str] | None:
    """How Compose is called here; None where it is missing."""
    for command in (("docker", "compose"), ("docker-compose",)):
        with suppress(FileNotFoundError):
            done = subprocess.run([*command, "version"], env=environment, capture_output=True, check=False)
            if done.returncode == 0:
                return command
    return None


def main(arguments: Sequence[str]) -> int:
    """The commands of the module's docstring."""
    engine = Engine()
    if list(arguments) == ["prepare"]:
        install()
        engine.start()
        try:
            engine.prepare_images()
        finally:
            engine.stop()
    elif list(arguments) == ["stop"]:
        engine.stop()
    else:
        print(__doc__)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""A real `neo4j-queue serve`, with a proxy before each of its services: faults are planted there, and end."""

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

import pytest

from neo4j_queue.database import Database
from neo4j_queue.local_services import LocalServices
from neo4j_queue.queue import EmbedQueue
from neo4j_queue.settings import Settings
from tests.celery.conftest import make_world
from tests.conftest import MakeSettings
from tests.faultkit import TcpProxy
from tests.serving import COMMAND, READY_S, listening
from tests.waiting import wait_until

__all__ = ["COMMAND", "READY_S", "make_world"]

ANNOUNCED = "serving health and metrics on "
# What the documents promise is three seconds; the rest is this machine's.
BOUND_S = 5.0
# A fault is seen by the next look; who is missing, by the one after that.
SEEN_S = 20.0
# Databases whose workers were never asked.
CALM = {"EMBEDDING_PROVIDER": "mock", "EMBEDDING_RATE_LIMIT_TOKENS": "unlimited"}


@dataclass(frozen=True)
class Answer:
    """What the server answered."""

    status: int
    body: bytes
    headers: dict[str, str]

    @property
    def json(self) -> dict[str, Any]:
        """The body as JSON."""
        found: dict[str, Any] = json.loads(self.body)
        return found


@dataclass(frozen=True)
class Server:
    """A server process that listens. `log` is the file of its stderr."""

    process: subprocess.Popen[bytes]
    url: str
    log: Path

    def get(self, path: str, method: str = "GET", **headers: str) -> Answer:
        """One request; also the answer of an error."""
        request = Request(self.url.rstrip("/") + path, headers=headers, method=method)
        try:
            with urlopen(request, timeout=READY_S) as found:
                return Answer(found.status, found.read(), dict(found.headers))
        except HTTPError as error:
            return Answer(error.code, error.read(), dict(error.headers))

    def codes(self) -> dict[str, dict[str, Any]]:
        """The reasons of the health by their codes; the status must agree with the state."""
        answer = self.get("/health")
        found = answer.json
        assert (answer.status == 200) is (found["state"] == "HEALTHY"), found
        return {cause["code"]: cause for cause in found["causes"]}

    def says(self, code: str) -> dict[str, Any]:
        """The reason, as soon as the health has it."""
        found = wait_until(lambda: self.codes().get(code), within_s=SEEN_S, what=f"the health says {code}")
        assert found["reason"]
        assert found["command"].split()[0] in ("neo4j-queue", "celery")
        return found

    def is_well(self) -> None:
        """Waits until there is no reason any more."""
        wait_until(lambda: not self.codes(), within_s=SEEN_S, what="the health has no reason left")
        assert self.get("/health").json["state"] == "HEALTHY"


@contextmanager
def serving(environment: dict[str, str], directory: Path, *arguments: str) -> Iterator[Server]:
    """`neo4j-queue serve` with these arguments, on a free port unless they name one."""
    with listening(["serve"], ANNOUNCED, environment, directory, *arguments) as found:
        yield Server(*found)


@dataclass(frozen=True)
class Proxies:
    """What stands between the server and its services."""

    graph: TcpProxy
    jobs: TcpProxy
    redis: TcpProxy

    def environment(self, services: LocalServices) -> dict[str, str]:
        """That of a process which reaches the services through them."""
        return {
            **os.environ,
            **services.environment(),
            **CALM,
            "NEO4J_URI": f"bolt://127.0.0.1:{self.graph.port}",
            "EMBED_JOB_DATABASE_URI": f"bolt://127.0.0.1:{self.jobs.port}",
            "CELERY_BROKER_URL": self.redis.on_the_way_to(services.redis.url),
        }


@pytest.fixture(scope="module")
def proxies(services: LocalServices) -> Iterator[Proxies]:
    """Each passes everything on, unless a test says otherwise."""

    def target(url: str) -> tuple[str, int]:
        parts = urlsplit(url)
        assert parts.hostname is not None
        assert parts.port is not None
        return parts.hostname, parts.port

    with (
        TcpProxy(target(services.graph.address.uri)) as graph,
        TcpProxy(target(services.jobs.address.uri)) as jobs,
        TcpProxy(target(services.redis.url)) as redis,
    ):
        yield Proxies(graph, jobs, redis)


@pytest.fixture(scope="module")
def shared_server(
    services: LocalServices, proxies: Proxies, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    """A server that the tests of a module share."""
    with serving(proxies.environment(services), tmp_path_factory.mktemp("serve")) as server:
        yield server


@dataclass(frozen=True)
class Scene:
    """A server before empty databases, and the library beside it."""

    server: Server
    proxies: Proxies
    settings: Settings
    queue: EmbedQueue
    graph_db: Database
    jobs_db: Database


@pytest.fixture
def scene(
    shared_server: Server,
    proxies: Proxies,
    graph_db: Database,
    jobs_db: Database,
    redis_url: str,
    make_settings: MakeSettings,
) -> Scene:
    """Everything is well."""
    settings = make_settings(embedding_rate_limit_tokens="unlimited", embed_batch_size=20)
    shared_server.is_well()
    return Scene(shared_server, proxies, settings, EmbedQueue(jobs_db, settings), graph_db, jobs_db)


Seen = Callable[[], bool]

"""Where local services live and which ports they have."""

import os
import socket
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from platformdirs.unix import Unix

LOOPBACK = "127.0.0.1"


# The XDG base directory specification on every system, so that one documented place is the right one.
DIRECTORIES = Unix("neo4j-queue", appauthor=False)


def data_directory() -> Path:
    """`$XDG_DATA_HOME/neo4j-queue`, where data and logs live unless another directory is given."""
    return DIRECTORIES.user_data_path


def cache_directory() -> Path:
    """`$NEO4J_QUEUE_CACHE`, else `$XDG_CACHE_HOME/neo4j-queue`: what can be fetched again at any time."""
    own = os.environ.get("NEO4J_QUEUE_CACHE")
    return Path(own).expanduser().resolve() if own else DIRECTORIES.user_cache_path


@dataclass(frozen=True, slots=True)
class ServicesConfig:
    """What to run, and where.

    `throwaway` is for data that can be made again (tests, benchmarks, the demo): transaction logs are pruned at once
    and stay small, so that they do not fill the disk. `java_heap` is the largest heap of each
    server, in the JVM's notation; `java_options` are given to it after ours. `neo4j_settings` are lines for
    `neo4j.conf` of both servers, in place of ours where the names are the same. `flower_port` is that of Flower, where
    it is asked for.
    """

    graph_port: int = 7687
    jobs_port: int = 7688
    redis_port: int = 6379
    directory: Path = field(default_factory=data_directory)
    throwaway: bool = False
    # 430 MB resident each with 768 MB; less makes the garbage collector visible in benchmarks.
    java_heap: str = "768m"
    java_options: tuple[str, ...] = ()
    neo4j_settings: Mapping[str, str] = field(default_factory=dict)
    flower_port: int = 5555

    def __post_init__(self) -> None:
        ports = (self.graph_port, self.jobs_port, self.redis_port, self.flower_port)
        if len(set(ports)) < len(ports):
            raise ValueError(f"the ports must differ: {ports}")
        # Neo4j takes a relative path as relative to its own home.
        object.__setattr__(self, "directory", Path(self.directory).expanduser().resolve())


@dataclass(frozen=True, slots=True)
class Progress:
    """News about one step: `tools`, `neo4j` (its files), `graph`, `jobs` or `redis`.

    `done` and `total` count files, and are only there while files come (`total` is what a first fetch needs).
    The last news of a step has `finished`.
    """

    step: str
    message: str
    done: int | None = None
    total: int | None = None
    finished: bool = False


Report = Callable[[Progress], None]


def silent(_news: Progress) -> None:
    """Drops all news."""


def port_is_free(port: int) -> bool:
    """True if a server could listen on this loopback port now."""
    with socket.socket() as probe:
        # As servers do: without it, connections of a server that stopped a moment ago make the port "in use".
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


def free_ports(count: int) -> list[int]:
    """Different loopback ports that are free at this moment."""
    with ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind((LOOPBACK, 0))
        return [int(each.getsockname()[1]) for each in sockets]

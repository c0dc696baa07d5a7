"""The faults of a chaos run: what production does to the parts, one at a time, in a seeded random order."""

import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import redis as redis_client

from benchmarks.chaos_world import World
from neo4j_queue.errors import Neo4jQueueError
from neo4j_queue.mock_provider import Reply, error

FREEZE_S = 3.0
# How long a supervisor takes to start again what died, at most.
AWAY_S = 2.0
EDITED, DELETED = 200, 20
# A clock that is off by this much makes every message expire whose life is counted by the clocks of two hosts.
CLOCK_OFF_S = 5
# So many jobs are completed between the copy of the jobs database and its return: none of them is in the copy.
SINCE_COPY = 1_000
COPY_WITHIN_S = 60.0
LIBFAKETIME = "libfaketimeMT.so.1"


@dataclass(slots=True)
class Fault:
    """A fault that took place. Times are epoch ms."""

    kind: str
    began_at: int
    # What was killed or stopped runs again, and says that it is ready.
    ended_at: int = 0
    # Milliseconds from then to the first job completed after it; None while there was none. What was in hand may be
    # completed during the fault, which says nothing about the way back.
    idle_ms: int | None = None

    @property
    def back_ms(self) -> int | None:
        """From its begin to the first completed job after it."""
        return None if self.idle_ms is None else self.ended_at - self.began_at + self.idle_ms


@dataclass(slots=True)
class Chaos:
    """Does faults to a world. Everything random comes from `random`, so that a seed is a run."""

    world: World
    random: random.Random
    done: list[Fault] = field(default_factory=list)

    def order(self, count: int) -> Iterator[str]:
        """So many kinds: each comes once before any comes twice. Those that this machine cannot do are left out."""
        possible = [kind for kind in KINDS if kind != SKEWED or faketime_library() is not None]
        kinds: list[str] = []
        while len(kinds) < count:
            kinds += self.random.sample(possible, len(possible))
        yield from kinds[:count]

    def strike(self, kind: str) -> Fault:
        """Does one fault, to its end."""
        fault = Fault(kind, now_ms())
        self.done.append(fault)
        KINDS[kind](self)
        fault.ended_at = now_ms()
        return fault

    # -- processes -----------------------------------------------------------------------------------------

    def kill_child(self) -> None:
        """kill -9 of one pool process of an embed worker."""
        worker = self.random.choice(self.world.embed_workers)
        if worker.pid is None:
            return
        with suppress(psutil.NoSuchProcess):
            children = psutil.Process(worker.pid).children()
            if children:
                self.random.choice(children).kill()

    def kill_worker(self) -> None:
        """kill -9 of a whole embed worker."""
        self._kill_process(self.random.choice(self.world.embed_workers).name)

    def kill_control(self) -> None:
        """kill -9 of the control worker."""
        self._kill_process("control")

    def kill_beat(self) -> None:
        """kill -9 of beat."""
        self._kill_process("beat")

    def _kill_process(self, name: str) -> None:
        self.world.process(name).kill()
        time.sleep(self.random.uniform(0, AWAY_S))
        self.world.start(name)

    # -- services ------------------------------------------------------------------------------------------

    def flush_redis(self) -> None:
        """Every message and every binding is gone."""
        with redis_client.Redis.from_url(self.world.services.redis.url) as client:
            client.flushall()

    def restart_redis(self) -> None:
        """Killed, and started empty."""
        self.world.services.redis.kill()
        time.sleep(self.random.uniform(0, AWAY_S))
        self.world.services.redis.start()

    def freeze_redis(self) -> None:
        """SIGSTOP for some seconds."""
        pid = self.world.services.redis.pid
        if pid is None:
            raise Neo4jQueueError("Redis is not running")
        os.kill(pid, signal.SIGSTOP)
        try:
            time.sleep(FREEZE_S)
        finally:
            os.kill(pid, signal.SIGCONT)

    def restart_jobs(self) -> None:
        """kill -9 of the jobs database, and its start."""
        self.world.services.jobs.kill()
        self.world.services.jobs.start()

    def restart_graph(self) -> None:
        """kill -9 of the graph database, and its start."""
        self.world.services.graph.kill()
        self.world.services.graph.start()

    def put_back_jobs(self) -> None:
        """The jobs database as it was a thousand completed jobs ago: a backup that was restored while all work on."""
        jobs = self.world.services.jobs
        jobs.stop()
        copy = self.world.copy_of(jobs)
        jobs.start()
        self.world.wait_for_completed(SINCE_COPY, COPY_WITHIN_S)
        jobs.stop()
        self.world.put_back(jobs, copy)
        jobs.start()

    def skew_clock(self) -> None:
        """One process is started again with a clock that is off, and keeps it to the end of the run."""
        process = self.world.process(self.random.choice(["control", "beat", "embed0"]))
        off_s = self.random.choice([-CLOCK_OFF_S, CLOCK_OFF_S])
        process.kill()
        process.environment = {
            **process.environment,
            "LD_PRELOAD": str(faketime_library()),
            "FAKETIME": f"{off_s:+d}s",
            # Deadlines and rests are not of the wall clock.
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "PYTHONPATH": os.pathsep.join([str(self._start_up()), process.environment["PYTHONPATH"]]),
        }
        self.world.start(process.name)

    def _start_up(self) -> Path:
        """A folder whose `sitecustomize` mends what the clock of libfaketime breaks."""
        folder = self.world.stage.directory / "faketime"
        folder.mkdir(exist_ok=True)
        (folder / "sitecustomize.py").write_text(RELATIVE_SLEEP, encoding="utf-8")
        return folder

    # -- the provider --------------------------------------------------------------------------------------

    def provider_500(self) -> None:
        """The next three requests fail."""
        self.world.provider.reply_next(*[error(500)] * 3)

    def provider_429(self) -> None:
        """A rate limit that asks for a second of rest."""
        self.world.provider.reply_next(error(429, headers={"Retry-After": "1"}))

    def provider_silent(self) -> None:
        """The next two requests are never answered."""
        self.world.provider.reply_next(*[Reply(silent=True)] * 2)

    # -- people and messages -------------------------------------------------------------------------------

    def edit(self) -> None:
        """Texts change while their old versions are queued or running."""
        self.world.edit(self.random, EDITED)

    def delete(self) -> None:
        """Entities go away while they are queued or running."""
        self.world.delete(self.random, DELETED)

    def double_messages(self) -> None:
        """The message of every open lease once more."""
        self.world.double_messages()


# Python sleeps until a time of the monotonic clock, and libfaketime moves that time, though it leaves that clock alone:
# the sleep fails. A sleep for a time is left alone.
RELATIVE_SLEEP = """
import select
import time

time.sleep = lambda seconds: select.select([], [], [], seconds) and None
"""
PUT_BACK = "jobs database put back to an older copy"
SKEWED = f"a process with its clock {CLOCK_OFF_S} s off"


def faketime_library() -> Path | None:
    """The library that gives a process another clock (Debian: package `faketime`), if it is here."""
    found = sorted(Path("/usr/lib").glob(f"*/faketime/{LIBFAKETIME}"))
    return found[0] if found else None


KINDS: dict[str, Callable[[Chaos], Any]] = {
    "kill -9 of a pool process": Chaos.kill_child,
    "kill -9 of an embed worker": Chaos.kill_worker,
    "kill -9 of the control worker": Chaos.kill_control,
    "kill -9 of beat": Chaos.kill_beat,
    "Redis flushed": Chaos.flush_redis,
    "Redis killed and started": Chaos.restart_redis,
    f"Redis frozen for {FREEZE_S:.0f} s": Chaos.freeze_redis,
    "jobs database killed and started": Chaos.restart_jobs,
    "graph database killed and started": Chaos.restart_graph,
    "provider: three times 500": Chaos.provider_500,
    "provider: 429": Chaos.provider_429,
    "provider: silent twice": Chaos.provider_silent,
    "entities edited": Chaos.edit,
    "entities deleted": Chaos.delete,
    "messages doubled": Chaos.double_messages,
    PUT_BACK: Chaos.put_back_jobs,
    SKEWED: Chaos.skew_clock,
}
# What may cost an answer that was paid for: the process that held it died, or the graph was away for too long.
LOSES_ANSWERS = frozenset(
    {
        "kill -9 of a pool process",
        "kill -9 of an embed worker",
        "jobs database killed and started",
        "graph database killed and started",
        PUT_BACK,
    }
)
# Work that had started when its worker died waits for its lock; everything else for the start deadline at most.
WAITS_FOR_LOCK = frozenset({"kill -9 of a pool process", "kill -9 of an embed worker"})


def now_ms() -> int:
    """The clock that the servers of this machine have too."""
    return time.time_ns() // 1_000_000

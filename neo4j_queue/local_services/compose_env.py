"""The passwords that `compose.yaml` takes from the `.env` beside it: what is missing is made, what is there is kept."""

import os
import re
import secrets
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from dotenv import dotenv_values

from neo4j_queue.local_services.config import LOOPBACK
from neo4j_queue.local_services.failures import ServiceError
from neo4j_queue.local_services.passwords import BYTES, USER, write_private

GRAPH = "NEO4J_PASSWORD"
JOBS = "EMBED_JOB_DATABASE_PASSWORD"
REDIS = "NEO4J_QUEUE_REDIS_PASSWORD"
FLOWER = "NEO4J_QUEUE_FLOWER_PASSWORD"
PASSWORDS = (GRAPH, JOBS, REDIS, FLOWER)
BROKER = "CELERY_BROKER_URL"
# What `.env.example` and `up` have: it names no broker of one's own.
OPEN_BROKER = re.compile(r"redis://(?:127\.0\.0\.1|localhost):(\d+)/0")
# Before there was `setup compose`, a person wrote the password of both servers here.
FORMER = "NEO4J_AUTH"
# In a URL, in redis.conf and in NEO4J_AUTH they mean what they say.
PLAIN = re.compile(r"[A-Za-z0-9._~-]+")
# Neo4j takes no shorter one.
LEAST = 8
HEADER = "# Written by `neo4j-queue setup compose`; the volumes keep the passwords of their first start."
RETENTION = ("EMBED_JOB_RETENTION_DAYS", "14")


@dataclass(frozen=True, slots=True)
class Written:
    """What became of `.env`: the names that were set, and those that were there and are kept."""

    file: Path
    made: tuple[str, ...]
    kept: tuple[str, ...]
    # True if others could read the file until now.
    closed: bool


def prepare(file: Path) -> Written:
    """Adds to the `.env` file what `compose.yaml` needs and it lacks; keeps everything else, and closes it to others.

    Raises `ServiceError` where a password that is there cannot work.
    """
    target = file.resolve()
    if target.exists() and not target.is_file():
        raise ServiceError(f"{file} is no ordinary file: passwords cannot be added to it")
    text = target.read_text(encoding="utf-8") if target.exists() else ""
    there = {name: value for name, value in dotenv_values(target, interpolate=False).items() if value}
    wanted = _wanted(there)
    for name in PASSWORDS:
        _refuse_odd(file, name, wanted[name])
    made = {name: value for name, value in wanted.items() if there.get(name) != value}
    closed = bool(text) and target.stat().st_mode & 0o077 != 0
    if made or closed:
        _replace(target, _with(text, made))
    kept = tuple(name for name in wanted if name not in made)
    return Written(target, tuple(made), kept, closed)


def entry(file: Path, redis_port: int) -> dict[str, str]:
    """The settings with which a program on this host enters the services that `compose.yaml` publishes."""
    there = {name: value or "" for name, value in dotenv_values(file, interpolate=False).items()}
    users = {"NEO4J_USERNAME": USER, "EMBED_JOB_DATABASE_USERNAME": USER}
    passwords = {name: there[name] for name in (GRAPH, JOBS) if there.get(name)}
    broker = f"redis://:{there.get(REDIS, '')}@{LOOPBACK}:{redis_port}/0"
    return {**users, **passwords, BROKER: broker} if len(passwords) == len(users) else {}


def _wanted(there: Mapping[str, str]) -> dict[str, str]:
    """Everything that compose.yaml and the commands on this host need, with what is there in its place."""
    former = there.get(FORMER, "").removeprefix(f"{USER}/")
    for_neo4j = former if former not in ("", "none") else None
    values = {name: there.get(name) or secrets.token_hex(BYTES) for name in PASSWORDS}
    for name in (GRAPH, JOBS):
        values[name] = there.get(name) or for_neo4j or values[name]
    # The commands on this host reach the published port with the same password.
    port = there.get("NEO4J_QUEUE_REDIS_PORT", "6379")
    broker = there.get(BROKER, f"redis://{LOOPBACK}:{port}/0")
    if found := OPEN_BROKER.fullmatch(broker):
        broker = f"redis://:{values[REDIS]}@{LOOPBACK}:{found[1]}/0"
    days, usual = RETENTION
    return {
        "NEO4J_USERNAME": USER,
        GRAPH: values[GRAPH],
        "EMBED_JOB_DATABASE_USERNAME": USER,
        JOBS: values[JOBS],
        REDIS: values[REDIS],
        FLOWER: values[FLOWER],
        BROKER: broker,
        days: there.get(days, usual),
    }


def _refuse_odd(file: Path, name: str, value: str) -> None:
    if PLAIN.fullmatch(value) is None:
        raise ServiceError(
            f"{file}: {name} may hold letters, digits and . _ ~ - only: it becomes part of a URL"
        )
    if len(value) < LEAST:
        raise ServiceError(f"{file}: {name} is shorter than {LEAST} characters, which Neo4j refuses")


def _with(text: str, made: Mapping[str, str]) -> str:
    """The text with these values: in the line that names the variable, else at its end."""
    left = dict(made)
    lines = list(_filled(text.splitlines(), left))
    if left:
        lines += ["", HEADER] if lines else [HEADER]
        lines += [f"{name}={value}" for name, value in left.items()]
    return "\n".join(lines) + "\n"


def _filled(lines: list[str], left: dict[str, str]) -> Iterator[str]:
    for line in lines:
        found = re.match(r"\s*(?:export\s+)?([A-Za-z0-9_]+)\s*=", line)
        if found and found[1] in left:
            yield f"{found[1]}={left.pop(found[1])}"
        else:
            yield line


def _replace(target: Path, text: str) -> None:
    """Whole or not at all, for its owner alone; the owner stays, also where root runs this."""
    partial = target.with_name(f"{target.name}.{os.getpid()}")
    try:
        write_private(partial, text)
        if target.exists():
            owner = target.stat()
            with suppress(PermissionError):
                os.chown(partial, owner.st_uid, owner.st_gid)
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)

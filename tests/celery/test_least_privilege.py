"""A Redis user with no more rights than SECURITY.md gives it carries everything that workers, beat and people do."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from neo4j_queue.local_services import LocalServices
from tests.celery.conftest import MakeWorld
from tests.waiting import wait_until

ROOT = Path(__file__).parents[2]
PASSWORD = "a-password-of-this-test"
USER = "neo4j-queue"
# As Flower listens.
LISTEN = """
from tasks.app import app

def heard(event):
    print(event["type"])
    raise SystemExit

with app.connection() as connection:
    app.events.Receiver(connection, handlers={"*": heard}).capture(limit=None, timeout=30, wakeup=True)
"""
# What harms others on the server, or reads what is not ours.
FORBIDDEN = (
    "FLUSHALL",
    "FLUSHDB",
    "KEYS *",
    "CONFIG SET maxmemory 1",
    "SHUTDOWN",
    "ACL LIST",
    "MONITOR",
    "REPLICAOF h 1",
    "EVAL return(1) 0",
    "GET of-another-program",
    "SET of-another-program 1",
    "PUBLISH of-another-program 1",
)


def rules() -> list[str]:
    """The rules of the user, as SECURITY.md has them."""
    (line,) = re.findall(
        rf"^user {USER} on >PASSWORD (.+)$", (ROOT / "SECURITY.md").read_text(), re.MULTILINE
    )
    return str(line).split()


@pytest.fixture
def url(services: LocalServices, redis_url: str) -> Iterator[str]:
    """The session's Redis, entered as that user."""
    with redis.Redis.from_url(redis_url) as admin:
        admin.execute_command("ACL", "SETUSER", USER, "reset", "on", f">{PASSWORD}", *rules())
        admin.acl_log_reset()
        yield f"redis://{USER}:{PASSWORD}@127.0.0.1:{services.redis.port}/0"
        admin.acl_deluser(USER)


def test_a_redis_user_of_few_rights_is_enough_for_all(
    make_world: MakeWorld, url: str, redis_url: str
) -> None:
    """Seen failing without the script commands, without the literal names of channels, and without the reply queues."""
    world = make_world(CELERY_BROKER_URL=url)
    world.celery.control()
    world.celery.embed(concurrency=1)
    world.celery.beat()
    world.create(60)
    world.drained(within_s=60)
    assert world.all_fresh(60)
    assert world.celery.call("inspect", "ping").returncode == 0
    assert world.celery.program(LISTEN).startswith(("worker-", "task-"))
    with redis.Redis.from_url(redis_url) as admin:
        denied = [(entry["reason"], entry["object"], entry["context"]) for entry in admin.acl_log()]
        assert denied == [], denied
        with redis.Redis.from_url(url) as ours:
            for command in FORBIDDEN:
                with pytest.raises(redis.exceptions.NoPermissionError):
                    ours.execute_command(*command.split())
        wait_until(lambda: admin.acl_log(), within_s=5, what="what was refused is in the log of Redis")

"""The dispatch broker: the boot check's ping, the doctor's look, and how many messages wait."""

from functools import cache
from typing import Any

import redis
from celery.app.amqp import AMQP
from celery.exceptions import CeleryError
from kombu.connection import Connection
from kombu.exceptions import KombuError, OperationalError
from kombu.transport.redis import Channel
from redis import exceptions

from neo4j_queue.checks.findings import Finding, Grade
from neo4j_queue.errors import SettingsError, TemporarilyUnavailable
from neo4j_queue.log import get_logger
from neo4j_queue.settings.readers import without_password
from tasks.routes import CONTROL, FORCE_GENERATE, LAST, LEASE_BATCH

TIMEOUT_S = 3.0
# Redis may drop messages under any other policy when memory is short. No job would be lost, but its start is late.
SAFE_POLICY = "noeviction"
# Errors that sending a message may raise.
PUBLISH_ERRORS = (CeleryError, KombuError, OperationalError, OSError, redis.RedisError)
# Errors that mean: the broker is away, or refuses us.
BROKER_ERRORS = (redis.RedisError, OperationalError, ConnectionError, TimeoutError)

# So many ticks and nudges may wait for the control workers: a hundred requests for a lease transaction say no more than
# one. Ticks that come once a minute or less find room beyond them, so that a worker that was busy for minutes has its
# heartbeat next.
MOST_WISHES = 100
MOST_WAITING = 200
# A broker that does not answer within this time is not waited for; sending the message will show what is wrong.
COUNT_WITHIN_S = 1.0

# Answers that mean "not now": a failover, memory or a disk that is full, a restart, a script that runs.
PASSING = (
    exceptions.ReadOnlyError,
    exceptions.OutOfMemoryError,
    exceptions.MasterDownError,
    exceptions.ClusterError,
)
PASSING_WORDS = ("MISCONF", "UNBLOCKED", "NOREPLICAS", "TRYAGAIN", "BUSY")
PROBE_KEY = "neo4j-queue:probe"
# Stands in events and in Flower where arguments would name an entity.
UNSHOWN = "(...)"

# How often a worker asks for a broker that is away: as often as beat ticks, for that is when there is work again.
ASK_EVERY_S = 1

log = get_logger()


class PromptConnection(Connection):
    """A connection that is there within a second of the broker.

    Kombu's own rests two seconds longer after each try, up to half a minute; so long work would wait for a broker that
    is back.
    """

    def ensure_connection(self, *args: Any, **kwargs: Any) -> Any:
        """As Kombu's, with even rests."""
        rests = {"interval_start": ASK_EVERY_S, "interval_step": 0, "interval_max": ASK_EVERY_S}
        return super().ensure_connection(*args, **{**kwargs, **rests})  # type: ignore[no-untyped-call]


class PromptAMQP(AMQP):  # type: ignore[misc]
    """Celery's messaging with such connections."""

    Connection = PromptConnection

    def as_task_v2(
        self, task_id: str, name: str, args: Any = None, kwargs: Any = None, *rest: Any, **options: Any
    ) -> Any:
        """As Celery's, but that events and Flower are not told which entity a person wants repaired."""
        if name == FORCE_GENERATE:
            options = {**options, "argsrepr": UNSHOWN, "kwargsrepr": UNSHOWN}
        return super().as_task_v2(task_id, name, args, kwargs, *rest, **options)


def ping(url: str) -> None:
    """Returns when the broker answers.

    Raises `TemporarilyUnavailable` while it does not, `SettingsError` when it refuses us.
    """
    shown = without_password(url)
    try:
        with _client(url) as client:
            client.ping()
            # A full Redis, or a replica, answers a ping all the same. The key is gone before anyone could see it.
            client.set(PROBE_KEY, "", px=1)
    except exceptions.NoPermissionError:
        return  # of that one key
    except (redis.AuthenticationError, redis.ResponseError, ValueError) as error:
        line = without_password(str(error))
        if isinstance(error, PASSING) or line.startswith(PASSING_WORDS):
            raise TemporarilyUnavailable(f"{shown}: {line}") from error
        raise SettingsError([f"CELERY_BROKER_URL={shown}: {line}"]) from error
    except (redis.RedisError, OSError) as error:
        raise TemporarilyUnavailable(f"{shown}: {without_password(str(error))}") from error


def examine(url: str) -> Finding:
    """The broker as `doctor` sees it: does it answer, let us in, and keep what it is given?"""
    shown = without_password(url)
    try:
        ping(url)
    except SettingsError as error:
        return Finding("broker", Grade.BAD, str(error), "set address, user and password in CELERY_BROKER_URL")
    except TemporarilyUnavailable as error:
        advice = "start Redis, or set CELERY_BROKER_URL; jobs are safe meanwhile, but no worker hears of them"
        return Finding("broker", Grade.BAD, str(error), advice)
    with _client(url) as client:
        version, policy = client.info("server").get("redis_version", "?"), _policy(client)
    detail = f"{shown} answers, version {version}"
    if policy != SAFE_POLICY:
        advice = (
            f"set maxmemory-policy {SAFE_POLICY}: under {policy} messages may be dropped, which costs time"
        )
        return Finding("broker", Grade.WARNING, detail, advice)
    return Finding("broker", Grade.OK, detail)


def is_crowded(url: str, task: str) -> bool:
    """True if so many messages wait for the control workers that one more of this task would say nothing new.

    For ticks and nudges: what people send is never held back. False if the broker does not answer.
    """
    count = waiting(url)
    return count is not None and count >= (MOST_WISHES if task == LEASE_BATCH else MOST_WAITING)


def waiting(url: str) -> int | None:
    """How many messages wait for the control workers; None if the broker does not answer."""
    try:
        return int(_counter(url).llen(CONTROL))
    except (redis.RedisError, OSError, ValueError):
        return None


def serve_last(url: str) -> None:
    """Puts the oldest message of the last priority in front of all others, if there is one.

    The transport serves its priorities in strict order, so under constant load the last one would never be served.
    """
    last = f"{CONTROL}{Channel.sep}{LAST}"
    try:
        # Messages are taken from the right.
        _counter(url).lmove(last, CONTROL, src="RIGHT", dest="RIGHT")
    except (redis.RedisError, OSError, ValueError) as error:
        log.debug("last_not_served", error=str(error))


@cache
def _counter(url: str) -> Any:
    return redis.Redis.from_url(url, socket_timeout=COUNT_WITHIN_S, socket_connect_timeout=COUNT_WITHIN_S)


def _policy(client: Any) -> str:
    try:
        return str(dict(client.config_get("maxmemory-policy")).get("maxmemory-policy", SAFE_POLICY))
    except redis.ResponseError:  # a managed Redis forbids CONFIG, and has its policy elsewhere
        return SAFE_POLICY


def _client(url: str) -> Any:
    return redis.Redis.from_url(url, socket_timeout=TIMEOUT_S, socket_connect_timeout=TIMEOUT_S)

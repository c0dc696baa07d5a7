"""A worker outlives every death of Redis, with messages in every state, without being started again (B2)."""

import os
import signal

import redis
from kombu import Connection, Consumer, Exchange, Message, Queue

from neo4j_queue.local_services import LocalServices
from tasks.app import app
from tests.celery.conftest import MakeWorld
from tests.faultkit import TcpProxy
from tests.faults.test_processes import all_embedded
from tests.waiting import wait_until

DEATHS = 4
# Four at once, when it is lost, and then one a second.
TRIES = 9


def test_a_lost_connection_is_closed_with_a_message_outstanding(
    redis_url: str, services: LocalServices
) -> None:
    """What a worker does when Redis dies, step by step: its message comes to be acknowledged after all.

    Guard: `do_restore` in tasks/app.py and `ack_emulation` in celeryconfig.py. Without both, closing raises "'NoneType'
    object has no attribute 'hostname'"; without the second, acknowledging raises "… no attribute 'client'".
    """
    got: list[Message] = []
    with Connection(redis_url, transport_options=app.conf.broker_transport_options) as connection:
        tasks = Consumer(connection.default_channel, [Queue("outstanding")], on_message=got.append)
        tasks.consume()
        control = Queue("ours.pidbox", Exchange("pidbox", type="fanout"), auto_delete=True)
        Consumer(connection.channel(), [control]).consume()
        connection.Producer().publish({"a": "hint"}, routing_key="outstanding")
        while not got:
            connection.drain_events(timeout=5)
        connection.transport.cycle.on_poll_start()  # it waits for the next message, as workers do
        services.redis.kill()
        connection.collect(socket_timeout=1)
        connection.close()
        got[0].ack()
    services.redis.start()


def test_what_arrives_while_a_worker_leaves_stays_in_redis(redis_url: str) -> None:
    """The answer to its last question is on the way already: the message goes back, nothing waits for a deadline."""
    connection = Connection(redis_url, transport_options=app.conf.broker_transport_options)
    consumer = Consumer(connection.default_channel, [Queue("leaving")], on_message=lambda _: None)
    consumer.consume()
    connection.transport.cycle.on_poll_start()
    with Connection(redis_url) as other:
        other.Producer().publish({"a": "hint"}, routing_key="leaving")
    consumer.cancel()
    connection.close()
    with redis.Redis.from_url(redis_url) as broker:
        assert broker.llen("leaving") == 1


def test_a_worker_outlives_a_redis_that_dies_with_messages_outstanding(
    make_world: MakeWorld, services: LocalServices
) -> None:
    """kill -9 of Redis, again and again, while a message was handed to a pool process that has not taken it yet.

    Guard: as above. Without `ack_emulation` and `do_restore` the first death ends the worker.
    """
    world = make_world()
    control = world.celery.control()
    beat = world.celery.beat()
    worker = world.celery.embed(concurrency=2)
    for death in range(DEATHS):
        children = worker.children()
        for pid in children:
            os.kill(pid, signal.SIGSTOP)
        world.create(10, prefix=f"death{death}-")
        with redis.Redis.from_url(world.environment["CELERY_BROKER_URL"]) as broker:
            wait_until(
                lambda: world.queue.status().processing and not broker.llen("embed"),
                within_s=20,
                what="the worker has the message",
            )
        services.redis.kill()
        for pid in children:
            os.kill(pid, signal.SIGCONT)
        services.redis.start()
        world.drained(within_s=60)
        ended = [process.name for process in (control, beat, worker) if process.exit_code() is not None]
        assert not ended, f"death {death} of Redis was that of {ended}"
    all_embedded(world, 10 * DEATHS)
    # A pool process that was asked to end would wait half a minute for the main process to hear of the batches that
    # it gave up with the connection.
    worker.kill()


def test_workers_ask_for_a_redis_that_is_away_every_second(
    make_world: MakeWorld, services: LocalServices, redis_url: str
) -> None:
    """So that they are back within a tick, however long it was away.

    Guard: `PromptConnection`. Without it the ninth try comes after thirty seconds (2 + 4 + 6 + 8 + 10).
    """
    with TcpProxy(("127.0.0.1", services.redis.port)) as proxy:
        world = make_world(CELERY_BROKER_URL=proxy.on_the_way_to(redis_url))
        worker = world.celery.embed(concurrency=1)
        services.redis.kill()
        wait_until(lambda: proxy.refused >= TRIES, within_s=12, what=f"{TRIES} tries")
        services.redis.start()
        wait_until(
            lambda: any(line["event"] == "broker_back" for line in worker.lines()),
            within_s=5,
            what="it is back",
        )
        worker.kill()

"""`neo4j_queue.open_graph`: an application opens the graph in one line, and closes all that it opened."""

from tests.celery.conftest import MakeWorld

MANY = """
import os, threading
import neo4j_queue

def held():
    return threading.active_count(), len(os.listdir("/proc/self/fd"))

def once(n):
    with neo4j_queue.open_graph() as graph:
        graph.create_entities([{"name": f"once{n}"}])

for n in range(3):
    once(n)
before = held()
for n in range(40):
    once(n)
print(before, held())
assert all(now <= then + 2 for then, now in zip(before, held())), (before, held())
"""


def test_forty_graphs_opened_and_closed_leave_no_thread_and_no_socket(make_world: MakeWorld) -> None:
    """Guard: `closing` of `open_graph`. Without it each one leaves a driver of the jobs database and a thread."""
    make_world().celery.program(MANY, within_s=120)

"""What happens in a random history of the queue, and how often."""

from dataclasses import dataclass

from hypothesis import strategies as st

from neo4j_queue.errors import ErrorCategory
from tests.queue.model import Wish

KEYS = st.sampled_from("abcdefg")
WISHES = st.builds(Wish, KEYS, st.integers(0, 9), st.booleans())
MOSTLY = st.sampled_from([True, True, True, False])


# What happens how often. One rule picks among them: hypothesis leaves a random half of a machine's rules out of each
# history, and a history without leases shows nothing.
WEIGHTS = {
    "enqueue": 4,
    "enqueue_several": 1,
    "lease": 5,
    "start": 2,
    "heartbeat": 2,
    "complete": 2,
    "fail": 3,
    "release": 2,
    "speak_with_another_token": 5,
    "settle_at_the_end": 2,
    "worker_dies": 1,
    "time_passes": 5,
    "recover": 3,
    "recover_beside_a_heartbeat": 1,
    "take_back": 1,
    "retry_failed": 2,
    "cleanup": 1,
    "pause": 1,
    "halt": 1,
}


@dataclass(frozen=True)
class Step:
    """What happens, and everything that any step may want to know.

    All of it is drawn for every step: what is drawn must not depend on what the real queue did before.
    """

    name: str
    owner: str
    wish: Wish
    second_wish: Wish
    category: ErrorCategory
    pick: int
    other: int
    number: int
    ms: int
    mostly: bool
    maybe: bool


STEP = st.builds(
    Step,
    name=st.sampled_from([name for name, weight in WEIGHTS.items() for _ in range(weight)]),
    owner=st.sampled_from(["w1", "w2"]),
    wish=WISHES,
    second_wish=WISHES,
    category=st.sampled_from(list(ErrorCategory)),
    # Which lease or job, the youngest being 0: most messages are about the last few.
    pick=st.sampled_from([0, 0, 0, 1, 1, 2, 2, 3, 5, 9]),
    other=st.integers(0, 6),
    number=st.integers(0, 3),
    # Of the size of back-off and locks.
    ms=st.sampled_from([1, 500, 1_000, 1_000, 2_000, 2_000, 3_001, 6_001, 60_000]),
    mostly=MOSTLY,
    maybe=st.booleans(),
)
ACTS = ("complete", "fail", "release", "heartbeat")

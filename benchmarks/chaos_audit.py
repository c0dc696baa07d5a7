"""Audits what a chaos run left, both databases and the provider's journal, against what must hold."""

import itertools
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from benchmarks.chaos_faults import LOSES_ANSWERS, Fault
from benchmarks.chaos_world import DIMENSIONS, World
from neo4j_queue.mock_provider import Request, vector_for
from neo4j_queue.pipeline.provider_call import SIBLING

PAGE = 1_000
SAME = 1e-5
JOBS = """
MATCH (j:EmbedJob)
RETURN j.entity_uid AS uid, j.status AS status, coalesce(j.attempts, 0) AS attempts, j.failure_reason AS reason
"""
VECTORS = "MATCH (n:Entity) WHERE n.name IN $names RETURN n.name AS name, n.embedding AS embedding"
OPEN_LEASES = "MATCH (l:EmbedLease {open: true}) RETURN count(l) AS n"
# A fault costs the answers that were in hand while it lasted, so those that came shortly before it too. When they are
# paid for again says nothing: their jobs wait their turn, behind all that is queued.
IN_HAND_MS = 5_000


@dataclass(slots=True)
class Audit:
    """Numbers of violations, each zero in a good run, and of inputs."""

    violations: dict[str, int] = field(default_factory=dict)
    examples: list[str] = field(default_factory=list)
    texts: int = 0
    inputs_paid: int = 0
    extra: int = 0
    explained: int = 0

    @property
    def good(self) -> bool:
        """True if nothing was violated."""
        return not any(self.violations.values())

    def count(self, what: str, cases: Sequence[str]) -> None:
        """Notes a kind of violation, and some cases by name."""
        self.violations[what] = len(cases)
        self.examples += [f"{what}: {case}" for case in cases[:5]]


def audit(world: World, faults: Sequence[Fault], clock_offset_ms: float) -> Audit:
    """Reads everything. `clock_offset_ms` is what the provider's clock (s) times 1,000 lacks to the epoch."""
    found = Audit()
    jobs = world.queue.database.read(JOBS)
    with_job = {row["uid"] for row in jobs}
    wrong = list(_wrong_vectors(world))
    lost = world.versions.keys() - with_job
    # After the return of an older copy an entity that was embedded before needs no job.
    found.count("jobs lost", sorted(lost & set(wrong) if world.put_backs else lost))
    found.count("jobs not ended", [r["uid"] for r in jobs if r["status"] not in ("completed", "failed")])
    found.count("jobs failed", [f"{r['uid']} ({r['reason']})" for r in jobs if r["status"] == "failed"])
    found.count("leases still open", ["open"] * world.queue.database.read(OPEN_LEASES)[0]["n"])
    found.count("vectors that are missing or not their text's", wrong)
    found.count("deleted entities that came back", _present(world, sorted(world.deleted)))
    journal = world.provider.journal
    failing = Counter(_uid(text) for request in journal if request.status != 200 for text in request.inputs)
    found.count(
        "attempts charged without a failing request",
        [f"{r['uid']}: {r['attempts']}" for r in jobs if r["attempts"] > failing[r["uid"]]],
    )
    _paid(found, journal, faults, clock_offset_ms)
    return found


def _wrong_vectors(world: World) -> Iterator[str]:
    names = sorted(world.versions)
    for first in range(0, len(names), PAGE):
        page = names[first : first + PAGE]
        texts = {text.uid: text.text for text in world.graph.read_texts(page)}
        vectors = {r["name"]: r["embedding"] for r in world.graph.database.read(VECTORS, names=page)}
        for name in page:
            right = vector_for(texts[name], DIMENSIONS) if name in texts else []
            stored = vectors.get(name) or []
            # The text itself is the one that was written last: an edit that went missing would show here.
            if f"version {world.versions[name]}" not in texts.get(name, ""):
                yield f"{name} has an old text"
            elif len(stored) != len(right) or any(
                abs(a - b) > SAME for a, b in zip(stored, right, strict=True)
            ):
                yield name


def _present(world: World, names: Sequence[str]) -> list[str]:
    return [row["name"] for row in world.graph.database.read(VECTORS, names=list(names))]


def _paid(found: Audit, journal: Sequence[Request], faults: Sequence[Fault], offset_ms: float) -> None:
    answers: dict[str, list[Request]] = defaultdict(list)
    for request in journal:
        if request.status == 200:
            for text in request.inputs:
                # The sibling belongs to no job: it asks whether the provider works, as often as that is in doubt.
                if text != SIBLING:
                    answers[text].append(request)
    costly = [fault for fault in faults if fault.kind in LOSES_ANSWERS]
    overlapping, unexplained = [], []
    for text, requests in answers.items():
        for earlier, later in itertools.pairwise(requests):
            found.extra += 1
            answered_at = round(offset_ms + (earlier.finished_at or earlier.at) * 1000)
            again_at = round(offset_ms + later.at * 1000)
            if again_at < answered_at:
                overlapping.append(_uid(text))
            if any(_cost(fault, answered_at, again_at) for fault in costly):
                found.explained += 1
            else:
                unexplained.append(f"{_uid(text)}, {_story(faults, answered_at, again_at)}")
    found.texts = len(answers)
    found.inputs_paid = found.texts + found.extra
    found.count("texts with two requests at once (a lease given twice)", overlapping)
    found.count("texts paid for twice without a crash that explains it", unexplained)


def _cost(fault: Fault, answered_at: int, again_at: int) -> bool:
    """True if this fault may have lost the answer of `answered_at`, so that `again_at` paid again (epoch ms)."""
    return (
        fault.began_at - IN_HAND_MS < answered_at < fault.ended_at + IN_HAND_MS and fault.began_at < again_at
    )


def _story(faults: Sequence[Fault], answered_at: int, again_at: int) -> str:
    """When it was paid for again, and what happened before."""
    before = [f"{f.kind} {answered_at - f.began_at:+,} ms" for f in faults if f.began_at < again_at]
    return f"again after {again_at - answered_at:,} ms; answered at: {', '.join(before[-3:]) or 'no fault'}"


def _uid(text: str) -> str:
    match = re.search(r"chaos-\d+", text)
    return match[0] if match else text[:40]

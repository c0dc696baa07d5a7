"""How much of a provider's limit is used, what its outages cost, and how often a text is paid for.

The provider is a real HTTP server that enforces the limits by its own clock; its journal is what is counted.
"""

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from benchmarks.options import Options
from benchmarks.report import Report, Table, Target
from benchmarks.stage import Stage, wipe_jobs
from benchmarks.workers import Workers
from neo4j_queue.graph import EntityGraph
from neo4j_queue.mock_provider import Limits, ProviderServer, Request, error
from neo4j_queue.queue import EmbedQueue
from neo4j_queue.settings import Settings

PARTS = ("limit", "headers", "outage", "duplicates")

DIMENSIONS = 256
LATENCY_S = 0.05
SLOTS = 4
PAGE = 500
PAUSE_S = 3_600
STALL_S = 120.0
POLL_S = 0.25

# 600 requests per minute, as a small account has; batches so small that the limit is what binds.
LIMIT, INTERVAL_S = 600, 60.0
LIMITED_BATCH = 10
# Shows whether the limit or the work was what held the requests back.
STEP_S = 5

OUTAGE_JOBS = 5_000
OUTAGE_S = 60.0
OUTAGE_BATCH = 10
# Throughput is full again when a window of this length holds this share of what it held before.
WINDOW_S = 1.0
FULL = 0.8

# One text in ten is another entity's text too, at a random place of the queue.
DUPLICATES = 0.1
WIPE = "MATCH (n:Entity) CALL (n) { DETACH DELETE n } IN TRANSACTIONS OF 5000 ROWS"


@dataclass(slots=True)
class Scene:
    """A provider, workers that use it, and a graph that fills their queue."""

    provider: ProviderServer
    graph: EntityGraph
    queue: EmbedQueue
    workers: Workers

    def wait(self, *, left: int = 0) -> None:
        """Returns when no more than `left` jobs have not ended."""
        before, moved_at = -1, time.monotonic()
        while (unfinished := self.queue.status().unfinished) > left:
            self.workers.check()
            now = time.monotonic()
            if unfinished != before:
                before, moved_at = unfinished, now
            elif now - moved_at > STALL_S:
                raise RuntimeError(f"{unfinished:,} jobs are left and nothing moved for {STALL_S:.0f} s")
            time.sleep(POLL_S)

    def must_be_done(self, count: int) -> None:
        """Raises unless so many jobs were completed and none failed."""
        status = self.queue.status()
        if (status.completed, status.failed) != (count, 0):
            raise RuntimeError(f"{status.completed} completed and {status.failed} failed of {count}")


def run(stage: Stage, options: Options) -> Report:
    """Measures the parts that are wanted."""
    report = Report("provider", options.shown())
    if options.wants("limit"):
        _limit(stage, options, report, configured=True)
    if options.wants("headers"):
        _limit(stage, options, report, configured=False)
    if options.wants("outage"):
        _outage(stage, options, report)
    if options.wants("duplicates"):
        _duplicates(stage, options, report)
    return report


@contextmanager
def _scene(stage: Stage, provider: ProviderServer, count: int, **changed: object) -> Iterator[Scene]:
    """The queue is filled and paused, the workers are idle."""
    variables = {
        "embedding_provider": "openai",
        "openai_api_key": "key-of-no-worth",
        "openai_base_url": provider.url,
        "openai_embedding_model": "bench",
        "neo4j_vector_dimensions": DIMENSIONS,
        **changed,
    }
    settings: Settings = stage.settings(**variables)
    with (
        EmbedQueue.connect(settings) as queue,
        EntityGraph.from_settings(settings, enqueue=queue.enqueue) as graph,
    ):
        stage.prepare_jobs(queue.database)
        graph.database.autocommit(WIPE)
        stage.prepare_graph(graph.database, settings)
        wipe_jobs(queue.database)
        queue.resume()
        queue.pause(PAUSE_S, "a benchmark is being prepared")
        for first in range(0, count, PAGE):
            names = range(first, min(first + PAGE, count))
            graph.create_entities({"name": f"e-{n:06}", "observations": [_text(n, count)]} for n in names)
        with Workers(stage.environment(**variables), stage.directory / "workers", SLOTS) as workers:
            workers.wait_ready(queue)
            queue.resume()
            yield Scene(provider, graph, queue, workers)


def _text(n: int, count: int) -> str:
    """The text of entity n; one in ten of them is that of another, far away or near."""
    if n % round(1 / DUPLICATES) == 0:
        n = (n * 7919 + 1) % count
    return f"An observation that only number {n} has, in the middle of a catalogue."


def _limit(stage: Stage, options: Options, report: Report, *, configured: bool) -> None:
    count = options.jobs
    what = "configured" if configured else "found in headers"
    stage.say(f"{count:,} jobs in batches of {LIMITED_BATCH} at {LIMIT} requests a minute, {what}")
    limits = Limits(requests_per_interval=LIMIT, interval_s=INTERVAL_S)
    changed: dict[str, object] = {"embed_batch_size": LIMITED_BATCH}
    if configured:
        changed["embedding_rate_limit_tokens"] = LIMIT
    with (
        ProviderServer(
            dimensions=DIMENSIONS, latency_s=LATENCY_S, limits=limits, rate_headers=not configured
        ) as provider,
        _scene(stage, provider, count, **changed) as scene,
    ):
        scene.wait()
        scene.must_be_done(count)
        journal, most = provider.journal, provider.most_in_any(INTERVAL_S)
    refused = sum(request.status == 429 for request in journal)
    used, windows = _use(journal)
    table = Table(
        f"{LIMIT} requests a minute, {what}",
        {"what": "what", "value": "value"},
        f"the limit: {LIMIT} requests in any {INTERVAL_S:.0f} s by the provider's clock",
    )
    table.add(what="requests", value=len(journal))
    table.add(what="answers of 429", value=refused)
    table.add(what="most requests in any sliding minute", value=most)
    table.add(what=f"of the limit used, over {windows} whole minutes", value=used)
    report.tables.append(table)
    report.notes.append(f"{what}: requests in each {STEP_S} s: {', '.join(map(str, _steps(journal)))}")
    report.targets += [
        Target(f"share of the limit used ({what})", used, 0.9 if configured else 0.85, at_least=True),
        Target(f"answers of 429 ({what})", refused, 0 if configured else 4),
    ]


def _steps(journal: list[Request]) -> list[int]:
    """How many requests were answered in each step since the first one."""
    counted = Counter(int((r.at - journal[0].at) // STEP_S) for r in journal if r.status == 200)
    return [counted[step] for step in range(max(counted) + 1)]


def _use(journal: list[Request]) -> tuple[float, int]:
    """Requests that were answered in the whole intervals since the first one, by what those hold."""
    good = [request.at for request in journal if request.status == 200]
    windows = max(1, int((good[-1] - good[0]) // INTERVAL_S))
    sent = sum(at < good[0] + windows * INTERVAL_S for at in good)
    return sent / (windows * LIMIT), windows


def _outage(stage: Stage, options: Options, report: Report) -> None:
    count = min(options.jobs, OUTAGE_JOBS)
    outage_s = 10.0 if options.quick else OUTAGE_S
    stage.say(f"{count:,} jobs in batches of {OUTAGE_BATCH}, an outage of {outage_s:.0f} s in the middle")
    with (
        ProviderServer(dimensions=DIMENSIONS, latency_s=LATENCY_S) as provider,
        _scene(stage, provider, count, embed_batch_size=OUTAGE_BATCH) as scene,
    ):
        scene.wait(left=count // 2)
        provider.reply_always(error(503))
        down = provider.clock()
        time.sleep(outage_s)
        provider.reply_always(None)
        up = provider.clock()
        scene.wait()
        scene.must_be_done(count)
        journal = provider.journal
        attempts = sum(job["attempts"] for job in scene.queue.jobs(limit=count))
    during = [request for request in journal if down <= request.at < up]
    probes = [request for request in during if len(request.inputs) == 1]
    before = _inputs_per_s(journal, journal[0].at, down)
    back = next((r.at - up for r in journal if r.at >= up and r.status == 200), float("inf"))
    full = _full_again(journal, up, before)
    table = Table(
        f"An outage of {outage_s:.0f} s in the middle of {count:,} jobs", {"what": "what", "value": "value"}
    )
    table.add(what="jobs failed for good", value=0)
    table.add(what="requests during the outage", value=len(during))
    table.add(what="of them probes of one job", value=len(probes))
    table.add(what="attempts charged", value=attempts)
    table.add(
        what="jobs of the requests in flight at its start",
        value=sum(len(r.inputs) for r in during) - len(probes),
    )
    table.add(what="inputs/s before", value=before)
    table.add(what="first good answer after the end, s", value=back)
    table.add(what=f"{FULL:.0%} of the throughput again after, s", value=full)
    report.tables.append(table)
    report.targets.append(Target("full throughput again after the outage, s", full, 10.0))


def _inputs_per_s(journal: list[Request], since: float, until: float) -> float:
    inputs = sum(len(r.inputs) for r in journal if since <= r.at < until and r.status == 200)
    return inputs / max(until - since, 1e-9)


def _full_again(journal: list[Request], up: float, before: float) -> float:
    """Seconds from `up` to the beginning of the first window with (nearly) the throughput from before."""
    for request in journal:
        if request.at >= up and _inputs_per_s(journal, request.at, request.at + WINDOW_S) >= FULL * before:
            return request.at - up
    return float("inf")


def _duplicates(stage: Stage, options: Options, report: Report) -> None:
    count = options.jobs
    stage.say(f"{count:,} jobs, one text in ten is that of another entity too")
    with (
        ProviderServer(dimensions=DIMENSIONS, latency_s=LATENCY_S) as provider,
        _scene(stage, provider, count, embed_text_properties="observations", embed_batch_size=50) as scene,
    ):
        scene.wait()
        scene.must_be_done(count)
        inputs = provider.inputs
    unique = len(set(inputs))
    table = Table("Texts that several entities share", {"what": "what", "value": "value"})
    table.add(what="entities", value=count)
    table.add(what="different texts", value=unique)
    table.add(what="inputs sent", value=len(inputs))
    table.add(what="inputs per different text", value=len(inputs) / unique)
    report.tables.append(table)
    report.targets.append(Target("inputs per different text", round(len(inputs) / unique, 2), 1.0))

"""How long a search takes where there are many vectors, the time of the provider left out."""

import os
import random
import time
from concurrent.futures import ThreadPoolExecutor
from statistics import median, quantiles

from benchmarks.options import Options
from benchmarks.report import Report, Table, Target
from benchmarks.stage import Stage
from neo4j_queue.graph import EntityGraph

PARTS = ("vectors",)

DIMENSIONS = 256
# What the machine bears decides how many are made; the report says how many it were.
VECTORS = int(os.environ.get("SEARCH_VECTORS", "100000"))
QUICK_VECTORS = 5_000
# One transaction: some megabytes of vectors.
PAGE = 2_000
WRITERS = 2
# A vocabulary as of a small library: a word of a query is in some hundred of a hundred thousand texts.
WORDS = 5_000
WORDS_PER_TEXT = 12
SAMPLES = 300
WARM_UP = 100
FILL_TIMEOUT_S = 120.0
# The promise of a search, and what a person does not notice.
BOUND_MS = 3_000.0

# Vectors are spread around a thousand centres, as texts are around subjects: without any order in them every neighbour
# is as far as all others, which no graph of neighbours can use.
FILL = f"""
UNWIND range($first, $first + $count - 1) AS at
WITH at, at % 1000 AS centre, [x IN range(1, {WORDS_PER_TEXT}) | 'w' + toInteger({WORDS} * rand() * rand())] AS words
CREATE (n:Entity {{name: 'v' + at, entityType: 'Benchmark',
  observations: [reduce(text = '', word IN words | text + ' ' + word)], tenth: CASE at % 10 WHEN 0 THEN true END,
  embedding_model: $model, embedding_hash: 'h' + at, embedded_at: timestamp()}})
WITH n, centre
CALL db.create.setNodeVectorProperty(n, 'embedding',
  [d IN range(0, {DIMENSIONS - 1}) | sin(centre * 7919.0 + d * d * 31.0 + centre * d) + 0.7 * (rand() - 0.5)])
"""
WIPE = "MATCH (n:Entity) CALL (n) { DETACH DELETE n } IN TRANSACTIONS OF 10000 ROWS"


def run(stage: Stage, options: Options, report: Report) -> None:
    """Fills the graph with entities that have vectors, and searches it in each way."""
    if not options.wants("vectors"):
        return
    count = QUICK_VECTORS if options.quick else VECTORS
    settings = stage.settings(neo4j_vector_dimensions=DIMENSIONS)
    with EntityGraph.from_settings(settings) as graph:
        stage.prepare_graph(graph.database, settings)
        _fill(stage, graph, count)
        _measure(graph, count, options, report)
        graph.database.autocommit(WIPE, timeout_s=600)


def _fill(stage: Stage, graph: EntityGraph, count: int) -> None:
    began = said = time.monotonic()

    def page(first: int) -> int:
        size = min(PAGE, count - first)
        graph.database.autocommit(FILL, timeout_s=FILL_TIMEOUT_S, first=first, count=size, model=graph.model)
        return size

    done = 0
    with ThreadPoolExecutor(WRITERS) as pool:
        for size in pool.map(page, range(0, count, PAGE)):
            done += size
            if time.monotonic() - said > 20:
                said = time.monotonic()
                stage.say(f"search: {done:,} of {count:,} vectors, {done / (said - began):,.0f}/s")
    stage.say(f"search: {count:,} vectors in {time.monotonic() - began:,.0f} s")
    graph.database.autocommit("CALL db.awaitIndexes(600)", timeout_s=600)


def _measure(graph: EntityGraph, count: int, options: Options, report: Report) -> None:
    columns = {"way": "way", "p50": "p50, ms", "p95": "p95, ms", "max": "longest, ms", "samples": "samples"}
    table = Table(f"Search of {count:,} vectors of {DIMENSIONS} dimensions, 10 hits, no provider", columns)
    samples = 20 if options.quick else SAMPLES
    chance = random.Random(7)
    for mode, filters in (
        ("semantic", {}),
        ("keyword", {}),
        ("hybrid", {}),
        ("hybrid, a filter that one of ten passes", {"where": {"tenth": True}}),
    ):
        taken = []
        for at in range(WARM_UP + samples if not options.quick else samples):
            vector = _vector(chance)
            words = " ".join(f"w{int(WORDS * chance.random() * chance.random())}" for _ in range(3))
            began = time.perf_counter()
            answer = graph.search(
                words,
                mode=mode.partition(",")[0],
                strict=True,
                embed=lambda _, vector=vector: vector,  # type: ignore[misc]
                **filters,  # type: ignore[arg-type]
            )
            spent = (time.perf_counter() - began) * 1000
            if len(answer) < 10:
                raise RuntimeError(f"{mode}: {len(answer)} hits")
            if at >= WARM_UP or options.quick:
                taken.append(spent)
        p95 = quantiles(taken, n=20, method="inclusive")[-1]
        table.add(way=mode, p50=median(taken), p95=p95, max=max(taken), samples=len(taken))
        report.targets.append(Target(f"{mode}, p95 (ms)", p95, BOUND_MS))
    report.tables.append(table)


def _vector(chance: random.Random) -> list[float]:
    return [chance.uniform(-1.0, 1.0) for _ in range(DIMENSIONS)]

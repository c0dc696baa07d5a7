"""The arithmetic of a dry run: requests, time and money, without any service."""

import math
import random

import pytest

from neo4j_queue.queue.batching import Bounds, Candidate, plan
from neo4j_queue.queue.budget import RateLimits
from neo4j_queue.queue.prices import HERE, LISTED, SET, price_of
from neo4j_queue.queue.provider_limits import ProviderReport
from neo4j_queue.reconcile.estimate import Planned, _Planner
from neo4j_queue.reconcile.pace import pace
from neo4j_queue.settings import Settings

BOUNDS = Bounds(inputs=50, tokens=1_000)
NOT_FOUND = ProviderReport()
SAID = "600 requests (as the provider says) per 60 s"


def settings(**values: object) -> Settings:
    return Settings(**{"_env_file": None, "embedding_provider": "openai", "openai_api_key": "k", **values})


@pytest.mark.parametrize("page", [1, 7, 50, 333, 5_000])
@pytest.mark.parametrize("factor", [0.5, 1.0, 1.3])
def test_requests_are_the_same_however_the_pages_are_cut(page: int, factor: float) -> None:
    source = random.Random(1)
    texts = [(f"text {n}", source.randrange(1, 120)) for n in range(2_000)]
    planned = [Planned(name, size, size) for name, size in texts]
    planner = _Planner(BOUNDS, factor)
    for first in range(0, len(texts), page):
        planner.add(planned[first : first + page])
        # Nothing is held but the request that is being filled.
        assert len(planner._filling) == len(planner._sizes) <= BOUNDS.inputs
    planner.close()

    charge = max(1.0, factor)
    whole = plan((Candidate(name, math.ceil(size * charge)) for name, size in texts), BOUNDS)
    assert planner.requests == len(whole)
    assert planner.inputs == len(texts)
    assert planner.est_tokens == sum(size for _, size in texts)


def test_nothing_takes_no_request() -> None:
    planner = _Planner(BOUNDS, 1.0)
    planner.add([])
    planner.close()
    assert planner.requests == 0


@pytest.mark.parametrize(
    ("requests", "tokens", "limits", "found", "seconds", "by"),
    [
        (100, 0, RateLimits(None, None, 60_000), NOT_FOUND, None, None),
        (20, 0, RateLimits(20, None, 60_000), NOT_FOUND, 0.0, "20 requests per 60 s"),
        (21, 0, RateLimits(20, None, 60_000), NOT_FOUND, 60.25, "20 requests per 60 s"),
        (61, 0, RateLimits(20, None, 1_000), NOT_FOUND, 3.15, "20 requests per 1 s"),
        (5, 900, RateLimits(20, 100, 60_000), NOT_FOUND, 482.0, "100 model tokens per 60 s"),
        (1, 0, RateLimits(0, None, 60_000), NOT_FOUND, None, "0 requests per 60 s"),
        (0, 0, RateLimits(0, None, 60_000), NOT_FOUND, 0.0, "0 requests per 60 s"),
        (1_201, 0, RateLimits(None, None, 1_000), ProviderReport(requests=600), 120.5, SAID),
        (1_201, 0, RateLimits(100, None, 60_000), ProviderReport(requests=600), 723.0, "100 requests per 60 s"),
        (3, 30, RateLimits(3, 1_000, 60_000), NOT_FOUND, 0.0, "3 requests per 60 s"),
    ],
)  # fmt: skip
def test_the_limit_that_takes_longest_decides(
    requests: int,
    tokens: int,
    limits: RateLimits,
    found: ProviderReport,
    seconds: float | None,
    by: str | None,
) -> None:
    shortest = pace(requests, tokens, limits, found)
    assert (shortest.seconds, shortest.limited_by) == (pytest.approx(seconds) if seconds else seconds, by)


def test_a_price_is_the_operators_or_the_lists_or_unknown() -> None:
    listed = price_of(settings())
    assert listed is not None
    assert (listed.per_million, listed.source) == (0.02, LISTED)
    assert listed.of(2_500_000) == pytest.approx(0.05)
    large = price_of(
        settings(openai_embedding_model="text-embedding-3-large", openai_embedding_dimensions=256)
    )
    assert large is not None
    assert large.per_million == 0.13
    given = price_of(settings(embedding_price_per_million_tokens="0"))
    assert given is not None
    assert (given.per_million, given.source) == (0.0, SET)
    here = price_of(settings(embedding_provider="mock"))
    assert here is not None
    assert (here.per_million, here.source) == (0.0, HERE)
    assert price_of(settings(openai_embedding_model="nobody-knows", neo4j_vector_dimensions=8)) is None

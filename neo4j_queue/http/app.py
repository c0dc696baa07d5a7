"""The application of `neo4j-queue serve`: health and metrics, and room for further routes."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from neo4j.exceptions import DriverError, Neo4jError
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from neo4j_queue.checks import health
from neo4j_queue.checks.health import Checkup, Report
from neo4j_queue.errors import SettingsError, TemporarilyUnavailable
from neo4j_queue.graph import EntityGraph
from neo4j_queue.http import metrics as exposition
from neo4j_queue.http.shared import Remembered, Shared
from neo4j_queue.in_time import InTime
from neo4j_queue.log import get_logger
from neo4j_queue.queue import tally
from neo4j_queue.queue.health import LEVEL
from neo4j_queue.queue.reasons import HealthState
from neo4j_queue.reconcile.coverage import KnownCoverage, known_coverage

# A probe that waits longer takes the process for dead; a database that answers at all has answered before.
WITHIN_S = 2.5
# Probes of several kinds come within a second of one another.
FRESH_S = 1.0
# After the health, which has waited for the jobs database already.
COUNTS_WITHIN_S = 0.5
# Entities are counted, or the figures of a sweep read: a tenth of a second of the graph, now and then.
COVERAGE_FRESH_S = 30.0
OK, UNAVAILABLE = 200, 503
MOST_LATE = 4
# An old answer would hide what has happened since.
NO_STORE = {"cache-control": "no-store"}


T = TypeVar("T")

log = get_logger()


@dataclass(slots=True)
class Site:
    """What is served. `report`: the health, shared by all who ask; `coverage`: None while it is not known."""

    checkup: Checkup
    report: Shared[Report] = field(init=False)
    coverage: Remembered[KnownCoverage] = field(init=False)
    _codes: list[str] | None = field(default=None, init=False)
    _of_jobs: InTime = field(default_factory=lambda: InTime("the jobs database", most_late=MOST_LATE))

    def __post_init__(self) -> None:
        self.report = Shared(self._looked, FRESH_S)
        self.coverage = Remembered(self._covered, fresh_s=COVERAGE_FRESH_S, good_s=float("inf"))

    def _looked(self) -> Report:
        """One look; what changed since the one before is a log line, for what stands still is no transition that any
        worker would log."""
        report = self.checkup.report(WITHIN_S)
        codes = sorted({str(cause.code) for cause in report.health.causes})
        if codes != self._codes:
            state, reasons = report.health.state, list(report.health.reasons)
            log.log(LEVEL[state], "health_observed", state=state, codes=codes, reasons=reasons)
        self._codes = codes
        return report

    async def health(self, _request: Request) -> Response:
        """Whether embedding works: 200 if HEALTHY, else 503, with the answer of `neo4j-queue health --json`."""
        report = await self.report.get()
        status = OK if report.health.state is HealthState.HEALTHY else UNAVAILABLE
        return JSONResponse(health.answer(report), status, NO_STORE)

    async def livez(self, _request: Request) -> Response:
        """Whether this process answers. It asks nothing: a restart of it would mend no database."""
        return JSONResponse({"alive": True}, OK, NO_STORE)

    async def readyz(self, _request: Request) -> Response:
        """Whether this process can say what it is asked: 200 if both databases can be used, else 503."""
        report = await self.report.get()
        ready = report.health.state is not HealthState.UNAVAILABLE
        answer = {"ready": ready, "reasons": [] if ready else list(report.health.reasons)}
        return JSONResponse(answer, OK if ready else UNAVAILABLE, NO_STORE)

    async def metrics(self, _request: Request) -> Response:
        """The metrics, also while a database is away: then that is what they show."""
        report = await self.report.get()
        body = await asyncio.to_thread(lambda: exposition.text(self._scraped(report)))
        return Response(body, OK, NO_STORE, media_type=exposition.CONTENT_TYPE)

    def _scraped(self, report: Report) -> exposition.Scrape:
        queue, there = self.checkup.queue, report.facts is not None
        counts = self._asked(lambda: tally.read(queue.database)) if there else None
        used = self._asked(queue.rate_used) if there else None
        coverage = None if report.graph_is_away or not there else self.coverage.last()
        return exposition.Scrape(report, counts, used, queue.limits, coverage)

    def _asked(self, work: Callable[[], T]) -> T | None:
        """What the jobs database answers; None if it does not in time."""
        try:
            return self._of_jobs(work, COUNTS_WITHIN_S)
        except (TemporarilyUnavailable, SettingsError, Neo4jError, DriverError):
            return None

    def _covered(self) -> KnownCoverage:
        checkup = self.checkup
        graph = EntityGraph.from_settings(checkup.settings, checkup.queue.enqueue, database=checkup.graph)
        return known_coverage(graph, checkup.queue, checkup.queue.status().unfinished)

    def routes(self) -> list[BaseRoute]:
        """The routes of health and metrics."""
        return [
            Route("/health", self.health),
            Route("/livez", self.livez),
            Route("/readyz", self.readyz),
            Route("/metrics", self.metrics),
        ]


def build(site: Site, more: Sequence[BaseRoute] = ()) -> Starlette:
    """The application. `more`: what else is served, such as pages."""
    return Starlette(routes=[*site.routes(), *more])

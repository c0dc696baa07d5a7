"""The routes of the page: what is shown to all who may ask, and what a person who has signed in may do."""

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, ParamSpec, TypeVar
from urllib.parse import parse_qsl, quote, urlsplit

from neo4j.exceptions import DriverError, Neo4jError
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from neo4j_queue.checks.health import Report
from neo4j_queue.errors import SettingsError, TemporarilyUnavailable
from neo4j_queue.errors.explain import explain as in_words
from neo4j_queue.http.page import acts, rendering
from neo4j_queue.http.page.acts import ACTS, BadForm, Done
from neo4j_queue.http.page.charts import Chart, chart
from neo4j_queue.http.page.looks import Depths, Letters, Looks, Missing, facts_missing
from neo4j_queue.http.page.sessions import LASTS_S, Session, Sessions
from neo4j_queue.in_time import InTime
from neo4j_queue.log import get_logger
from neo4j_queue.queue import history
from neo4j_queue.queue.dead_letters import LATEST
from neo4j_queue.queue.listing import Job
from neo4j_queue.reconcile.coverage import KnownCoverage

SESSION_COOKIE, VISITOR_COOKIE = "neo4j_queue_session", "neo4j_queue_visitor"
# Of all forms: a filter and a reason.
FORM_BYTES, FORM_FIELDS = 16_384, 20
# A thousand jobs are queued again in a second or two.
ACT_WITHIN_S = 10.0
# A wrong token is answered no sooner; those who wait are few, for each client may be wrong five times a minute.
WRONG_AFTER_S = 0.5
HOURS = (1, 6, 24)
# Pages that wait for a database at the same time. Python has five threads for such work, and one more for each core.
AT_ONCE = 3

log = get_logger()

T = TypeVar("T")
P = ParamSpec("P")


@dataclass(slots=True)
class Page:
    """The page of one deployment. `report` and `coverage` are shared with the other routes; `nudge` tells the workers
    that jobs may be due."""

    looks: Looks
    report: Callable[[], Awaitable[Report]]
    coverage: Callable[[], KnownCoverage | None]
    sessions: Sessions
    nudge: Callable[[], None]
    _acting: InTime = field(default_factory=lambda: InTime("the jobs database", most_late=AT_ONCE))
    _slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(AT_ONCE))

    async def overview(self, request: Request) -> Response:
        """Everything at a glance."""
        began, report = time.monotonic(), await self.report()
        hours = _hours(request)
        missing = facts_missing(report)
        depths: Depths | Missing
        if report.facts is None:
            depths = missing or Missing("the jobs database cannot be used")
        else:
            depths = await self._aside(self.looks.depths, report.facts.status, began)
        coverage = None if report.graph_is_away or missing else self.coverage()
        known = None if isinstance(depths, Missing) else depths
        return self._shown(
            request,
            "overview.html",
            report,
            facts=report.facts,
            depths=known,
            missing=depths if isinstance(depths, Missing) else None,
            charts=_charts(known, report.facts.status.now if report.facts else 0, hours),
            rate=_rate(known, report.facts.status.now if report.facts else 0),
            hours=hours,
            all_hours=HOURS,
            coverage=coverage,
            limits=self.looks.checkup.queue.limits,
        )

    async def letters(self, request: Request) -> Response:
        """Dead letters of a kind."""
        began, report = time.monotonic(), await self.report()
        asked = {name: value[:200] for name, value in request.query_params.items()}
        try:
            selection = acts.selection_of(asked)
        except BadForm as error:
            return self._refused(request, 400, str(error))
        found: Letters | Missing | None = facts_missing(report)
        if found is None:
            found = await self._aside(self.looks.letters, selection, began)
        return self._shown(
            request,
            "letters.html",
            report,
            facts=report.facts,
            found=None if isinstance(found, Missing) else found,
            missing=found if isinstance(found, Missing) else None,
            selection=selection,
            looked=LATEST,
            most=acts.MOST_REPLAYED,
        )

    async def letter(self, request: Request) -> Response:
        """One dead letter, or what became of it."""
        began, report = time.monotonic(), await self.report()
        job_id = request.path_params["id"]
        found: Job | Missing | None = facts_missing(report)
        if found is None:
            found = await self._aside(self.looks.job, job_id, began)
        if found is None:
            return self._refused(request, 404, "There is no job of this id.")
        job, missing = (None, found) if isinstance(found, Missing) else (found, None)
        return self._shown(
            request, "letter.html", report, job=job, missing=missing, now=round(time.time() * 1000)
        )

    async def entity(self, request: Request) -> Response:
        """Why one entity has no fresh vector."""
        began, report = time.monotonic(), await self.report()
        name = request.query_params.get("name", "").strip()
        missing = facts_missing(report)
        if missing is None and report.graph_is_away:
            missing = Missing(next(why for why in report.health.reasons if why.startswith("the graph")))
        found = None
        if name and missing is None:
            answer = await self._aside(self.looks.explained, name, began)
            found, missing = (None, answer) if isinstance(answer, Missing) else (answer, None)
        return self._shown(request, "entity.html", report, name=name, found=found, missing=missing)

    async def sign_in_form(self, request: Request) -> Response:
        """Where the token is typed."""
        visitor = request.cookies.get(VISITOR_COOKIE) or secrets.token_urlsafe(24)
        response = rendering.page(
            "sign_in.html",
            {**self._frame(request), "form_token": self.sessions.form_token_of(visitor), "why": None},
        )
        _set_cookie(request, response, VISITOR_COOKIE, visitor)
        return response

    async def sign_in(self, request: Request) -> Response:
        """Begins a session for who knows the token."""
        form = await _form(request)
        visitor = request.cookies.get(VISITOR_COOKIE)
        if form is None or not _from_here(request):
            return self._refused(request, 403, "This form did not come from this page.")
        if not self.sessions.made_for(form.get("form", ""), visitor):
            return self._refused(request, 403, "This form is too old, or cookies are off: open it again.")
        client = request.client.host if request.client else "?"
        wait_s = self.sessions.wait_s(client)
        if wait_s:
            return self._refused(request, 429, f"Too many wrong tokens: try again in {wait_s:.0f} s.")
        shown = self.sessions.sign_in(form.get("token", ""), client)
        if shown is None:
            log.warning("page_token_wrong", client=client)
            await asyncio.sleep(WRONG_AFTER_S)
            return self._refused(request, 403, "That is not the token of this server (SERVE_TOKEN).")
        log.info("page_signed_in", client=client)
        response = _to("/")
        _set_cookie(request, response, SESSION_COOKIE, shown, LASTS_S)
        return response

    async def sign_out(self, request: Request) -> Response:
        """Ends the session."""
        _, refusal = await self._permitted(request)
        if refusal is not None:
            return refusal
        self.sessions.sign_out(request.cookies.get(SESSION_COOKIE))
        response = _to("/")
        response.delete_cookie(SESSION_COOKIE, path="/")
        return response

    async def act(self, request: Request) -> Response:
        """Does what a form of the page asks for."""
        work = ACTS.get(request.path_params["act"])
        if work is None:
            return self._refused(request, 404, "There is no such act.")
        form, refusal = await self._permitted(request)
        if form is None:
            return refusal or self._refused(request, 403, "")
        queue = self.looks.checkup.queue
        session = self._session(request)
        try:
            done = await self._aside(self._acting, lambda: work(queue, form), ACT_WITHIN_S)
        except BadForm as error:
            return self._refused(request, 400, str(error))
        except (TemporarilyUnavailable, SettingsError, Neo4jError, DriverError) as error:
            why = in_words(error) if isinstance(error, Neo4jError | DriverError) else str(error)
            return self._refused(request, 503, f"Whether it was done is not known: {why}")
        self._tell(done, session)
        return _to(form.get("back", "/"))

    async def static(self, request: Request) -> Response:
        """Style, script and icon."""
        return rendering.static(request.path_params["name"]) or Response(status_code=404)

    def routes(self) -> list[BaseRoute]:
        """The routes of the page. What changes anything is a POST."""
        return [
            Route("/", self.overview),
            Route("/dead", self.letters),
            Route("/dead/{id}", self.letter),
            Route("/entity", self.entity),
            Route("/sign-in", self.sign_in_form, methods=["GET"]),
            Route("/sign-in", self.sign_in, methods=["POST"]),
            Route("/sign-out", self.sign_out, methods=["POST"]),
            Route("/act/{act}", self.act, methods=["POST"]),
            Route("/static/{name}", self.static),
        ]

    async def _aside(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """What blocking work returns or raises. Pages take some threads at most: probes need the others."""
        async with self._slots:
            return await asyncio.to_thread(work, *args, **kwargs)

    async def _permitted(self, request: Request) -> tuple[dict[str, str] | None, Response | None]:
        """The form, or why it is refused: it must come from this page, in a session, and be made for that session."""
        form = await _form(request)
        if form is None:
            return None, self._refused(request, 400, "This is no form of this page.")
        if not _from_here(request):
            return None, self._refused(request, 403, "This form did not come from this page.")
        session = self._session(request)
        if session is None:
            return None, self._refused(
                request, 403, "Sign in first: without it this page shows, and does nothing."
            )
        if not session.made(form.get("form", "")):
            return None, self._refused(request, 403, "This form is of another session: open the page again.")
        return form, None

    def _tell(self, done: Done, session: Session | None) -> None:
        if done.due:
            self.nudge()
        if session is not None:
            session.notes.append(done.said)

    def _session(self, request: Request) -> Session | None:
        return self.sessions.of(request.cookies.get(SESSION_COOKIE))

    def _frame(self, request: Request) -> dict[str, Any]:
        """What every page shows around its content."""
        session = self._session(request)
        return {
            "session": session,
            "form_token": session.form_token if session else None,
            "notes": session.told() if session else [],
            "may_sign_in": self.sessions.possible and session is None,
            "here": str(request.url.path) + (f"?{request.url.query}" if request.url.query else ""),
        }

    def _shown(self, request: Request, template: str, report: Report, **values: Any) -> Response:
        return rendering.page(template, {**self._frame(request), "report": report, **values})

    def _refused(self, request: Request, status: int, why: str) -> Response:
        return rendering.page("refused.html", {**self._frame(request), "why": why, "status": status}, status)


def _charts(depths: Depths | None, now: int, hours: int) -> list[Chart]:
    if depths is None:
        return []
    samples = depths.samples
    return [
        chart("Depth", "jobs", [(each.at, each.waiting) for each in samples], now, hours),
        chart("Rate", "vectors a minute", history.rates(samples), now, hours),
    ]


def _rate(depths: Depths | None, now: int) -> float | None:
    """Vectors a minute lately; None = not known."""
    known = history.rates(depths.samples)[-1:] if depths is not None else []
    return next((rate for at, rate in known if now - at <= history.GAP_MS), None)


def _hours(request: Request) -> int:
    asked = request.query_params.get("hours", "")
    return next((hours for hours in HOURS if str(hours) == asked), 6)


def _from_here(request: Request) -> bool:
    """True if a page of this server sent the form. The gate lets other programs of this machine ask, but not act."""
    origins = request.headers.getlist("origin")
    if origins:
        return len(origins) == 1 and urlsplit(origins[0]).netloc == request.headers.get("host")
    return request.headers.get("sec-fetch-site") == "same-origin"


async def _form(request: Request) -> dict[str, str] | None:
    """The fields of a form; None for what is none, or too large."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        return None
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > FORM_BYTES:
            return None
    try:
        fields = parse_qsl(
            body.decode("utf-8"),
            keep_blank_values=True,
            strict_parsing=bool(body),
            errors="strict",
            max_num_fields=FORM_FIELDS,
        )
    except ValueError:
        return None
    return dict(fields)


def _to(path: str) -> RedirectResponse:
    """To a page of this server, and to no other: a path that begins with two slashes names a host."""
    parts = urlsplit(path)
    own = (
        path.startswith("/") and not path.startswith(("//", "/\\")) and not parts.netloc and not parts.scheme
    )
    target = quote(path, safe="/?&=%+-._~:@,") if own else "/"
    return RedirectResponse(target, 303, rendering.HEADERS)


def _set_cookie(
    request: Request, response: Response, name: str, value: str, lasts_s: float | None = None
) -> None:
    response.set_cookie(
        name,
        value,
        max_age=None if lasts_s is None else round(lasts_s),
        path="/",
        secure=request.url.scheme == "https",
        httponly=True,
        samesite="strict",
    )

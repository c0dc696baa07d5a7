"""`serve`: health, metrics and the page for people over HTTP."""

import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated

import typer

from neo4j_queue.cli import output, session, status

if TYPE_CHECKING:
    from socket import socket

    from neo4j_queue.http.place import Place
    from neo4j_queue.queue import EmbedQueue
    from neo4j_queue.queue.reasons import Reason
    from neo4j_queue.settings import Settings

# A probe waits for no more than a hiccup; the next one asks again.
RETRY_TIME_S = 1.0
CLOSE_WITHIN_S = 1.0
# The workers answer within a second or two, and a probe waits for a second at most. So who is missing is told from the
# last look, and looked for again when that is this old.
PRESENCE_FRESH_S = 5.0
PRESENCE_GOOD_S = 60.0


def register(app: typer.Typer) -> None:
    """Adds this module's command."""
    app.command()(serve)


def serve(
    host: Annotated[str | None, typer.Option(help="Address to listen on. Default: HEALTH_HOST.")] = None,
    port: Annotated[
        int | None,
        typer.Option(min=0, max=65535, help="Port; 0 = any free one. Default: HEALTH_PORT."),
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="A name under which browsers know it; may be given again."),
    ] = None,
) -> None:
    """Serve health and metrics over HTTP, and a page for people: /health, /livez, /readyz, /metrics and /.

    /health is 200 when everything works, else 503 with the reasons; it answers within 3 seconds whatever is down. One
    such process shows all workers. It starts whether the databases answer or not. On the page a person may act who
    knows SERVE_TOKEN; without one it is read-only.

    Exit code 0 after Ctrl-C or SIGTERM, 75 when the port is in use.

    \b
    Examples:
      neo4j-queue serve
      neo4j-queue serve --host 0.0.0.0 --port 3001 --allow-host queue.example
      curl -s localhost:3001/health | jq -r .state
    """
    from neo4j_queue import log
    from neo4j_queue.http.place import Place, listen

    settings = session.load_settings()
    log.configure("serve", settings, style=session.options.style, quiet_libraries=not session.options.verbose)
    wanted = settings.health_port if port is None else port
    names = frozenset(allow_host or ())
    place = Place(host or settings.health_host, wanted, hosts=names, own_pages=True)
    with listen(place) as listener:
        address = place.url(listener.getsockname()[1])
        output.print_line(f"neo4j-queue: serving health and metrics on {address}", sys.stderr)
        _serve(settings, place, listener)


def _serve(settings: "Settings", place: "Place", listener: "socket") -> None:
    import anyio

    from neo4j_queue.checks.health import Checkup
    from neo4j_queue.database import Database
    from neo4j_queue.errors import TemporarilyUnavailable
    from neo4j_queue.http import app, server
    from neo4j_queue.http.gate import Gate
    from neo4j_queue.http.page.looks import Looks
    from neo4j_queue.http.page.pages import Page
    from neo4j_queue.http.page.sessions import Sessions
    from neo4j_queue.interruption import terminable
    from neo4j_queue.queue import EmbedQueue

    graph = Database(settings.graph_address(), retry_time_s=RETRY_TIME_S)
    queue = EmbedQueue(Database(settings.jobs_address(), retry_time_s=RETRY_TIME_S), settings)
    checkup = Checkup(settings, queue, graph, Watched(settings.celery_broker_url, queue))
    site = app.Site(checkup)
    token = None if settings.serve_token is None else settings.serve_token.get_secret_value()
    page = Page(Looks(checkup), site.report.get, site.coverage.last, Sessions(token), session.nudger())
    with suppress(KeyboardInterrupt), terminable():
        anyio.run(server.serve, Gate(app.build(site, page.routes()), place), listener)
    for database in (graph, queue.database):
        # A frozen one would keep the program from ending.
        with suppress(TemporarilyUnavailable):
            session.in_time("the database", database.close, CLOSE_WITHIN_S)


class Watched(status.Asked):
    """The broker and the workers, who are asked in the background after the first time."""

    def __init__(self, url: str, queue: "EmbedQueue") -> None:
        from neo4j_queue.http.shared import Remembered

        super().__init__(url, queue)
        self._last = Remembered(super().missing, fresh_s=PRESENCE_FRESH_S, good_s=PRESENCE_GOOD_S)

    def missing(self) -> "list[Reason] | None":
        """Who was missing at the last look."""
        return self._last.get()

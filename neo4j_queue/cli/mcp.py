"""`mcp`: graph and queue as tools for agents."""

import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated

import typer

from neo4j_queue.cli import output, session, status

if TYPE_CHECKING:
    from neo4j_queue.http.place import Place
    from neo4j_queue.mcp_server.backend import Backend
    from neo4j_queue.settings import Settings

CONFIGURATION = 78
LOOPBACK = "127.0.0.1"
# Beside the port of health and metrics.
PORT = 3002
PATH = "/mcp"
HTTP_OPTIONS = ("host", "port", "path", "allow_host", "allow_origin")
EXTRA = "the MCP server needs a package that is not installed: pip install neo4j-queue[mcp]"


def register(app: typer.Typer) -> None:
    """Adds this module's command."""
    app.command()(mcp)


def mcp(
    context: typer.Context,
    http: Annotated[
        bool, typer.Option("--http", help="Serve over HTTP instead of stdin and stdout.")
    ] = False,
    host: Annotated[str, typer.Option(help="With --http: address to listen on.")] = LOOPBACK,
    port: Annotated[int, typer.Option(min=0, max=65535, help="With --http: port; 0 = any free one.")] = PORT,
    path: Annotated[str, typer.Option(help="With --http: path of the address.")] = PATH,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="With --http: a name under which clients know it; repeatable."),
    ] = None,
    allow_origin: Annotated[
        list[str] | None,
        typer.Option(metavar="ORIGIN", help="With --http: web pages that may call; repeatable."),
    ] = None,
    read_only: Annotated[
        bool, typer.Option("--read-only", help="Leave out the tools that change anything.")
    ] = False,
) -> None:
    """Serve graph and queue as tools for agents (MCP), over stdin and stdout or over HTTP.

    An agent's program starts it by itself: docs/how-to/mcp.md has the configuration. It starts whether the databases
    answer or not; a call that needs one of them says within 20 seconds what is wrong.

    Over HTTP it listens on the loopback address. Elsewhere clients have to show a token: MCP_TOKEN, or MCP_TOKEN_FILE.

    Exit code 0 after Ctrl-C or the end of stdin, 75 when the port is in use, 78 when the package `mcp` is missing.

    \b
    Examples:
      neo4j-queue mcp
      neo4j-queue mcp --read-only
      neo4j-queue mcp --http
      MCP_TOKEN_FILE=/run/secrets/mcp neo4j-queue mcp --http --host 0.0.0.0 --allow-host graph.example
    """
    for name in () if http else HTTP_OPTIONS:
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            raise typer.BadParameter("goes with --http alone", param_hint=f"--{name.replace('_', '-')}")
    if not path.startswith("/"):
        raise typer.BadParameter("must begin with /", param_hint="--path")
    try:
        import mcp.server  # noqa: F401
    except ImportError:
        output.print_line(f"neo4j-queue: {EXTRA}", sys.stderr)
        raise typer.Exit(CONFIGURATION) from None
    settings = _settings()
    if http:
        from neo4j_queue.http.place import Place

        token = None if settings.mcp_token is None else settings.mcp_token.get_secret_value()
        names = frozenset(allow_host or ()), frozenset(each.rstrip("/") for each in allow_origin or ())
        _serve_http(settings, Place(host, port, path, token, *names), read_only=read_only)
    else:
        _serve_stdio(settings, read_only=read_only)


def _settings() -> "Settings":
    from neo4j_queue import log

    settings = session.load_settings()
    log.configure("mcp", settings, style=session.options.style, quiet_libraries=not session.options.verbose)
    return settings


def _open_backend(settings: "Settings") -> "Backend":
    """Opens no connection: the first call of a tool does."""
    from neo4j_queue.database import Database
    from neo4j_queue.mcp_server.backend import Backend, Broker
    from neo4j_queue.queue import EmbedQueue
    from tasks.client import graph_of

    nudge = session.nudger()
    database = Database(settings.graph_address(), retry_time_s=session.RETRY_TIME_S)
    queue = EmbedQueue(Database(settings.jobs_address(), retry_time_s=session.RETRY_TIME_S), settings)
    graph = graph_of(settings, database, queue, nudge)
    asked = status.Asked(settings.celery_broker_url, queue)
    broker = Broker(nudge, asked.trouble, asked.missing)
    return Backend(settings, graph, queue, broker)


def _serve_stdio(settings: "Settings", *, read_only: bool) -> None:
    import anyio

    from neo4j_queue.mcp_server import stdio
    from neo4j_queue.mcp_server.calls import Calls
    from neo4j_queue.mcp_server.server import build

    backend, calls = _open_backend(settings), Calls()
    try:
        anyio.run(stdio.serve, build(backend, calls, read_only=read_only), calls, backend.close)
    except* BrokenPipeError:
        # The client is gone: there is no reader of what went wrong.
        backend.close()


def _serve_http(settings: "Settings", place: "Place", *, read_only: bool) -> None:
    import anyio

    from neo4j_queue.interruption import terminable
    from neo4j_queue.mcp_server import http
    from neo4j_queue.mcp_server.calls import Calls
    from neo4j_queue.mcp_server.server import build

    with http.listen(place) as listener:
        backend, calls = _open_backend(settings), Calls()
        address = place.url(listener.getsockname()[1])
        output.print_line(f"neo4j-queue: serving MCP on {address}", sys.stderr)
        server = build(backend, calls, read_only=read_only)
        with suppress(KeyboardInterrupt), terminable():
            anyio.run(http.serve, server, calls, place, listener)
        backend.close()

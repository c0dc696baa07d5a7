"""The command line, `neo4j-queue`.

One module per group of commands; each has `register(app)`. A module here imports only the standard library,
typer and its neighbours at the top, and everything heavy (drivers, tables, the queue itself) inside the command
that needs it, so that `--help` answers at once.
"""

# ruff: noqa: E402 (the first import handles Ctrl-C during the others)
from neo4j_queue.cli import interrupt

interrupt.end_at_once_while_loading()

import os
import sys
from importlib import import_module
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed_version
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from neo4j_queue.cli import driver, output, session
from neo4j_queue.wellformed import is_well_formed

# In the order of `--help`: set up, look, act.
GROUPS = (
    "services",
    "setup",
    "logs",
    "demo",
    "schema",
    "status",
    "watch",
    "explain",
    "jobs",
    "dead",
    "release",
    "control",
    "embed",
    "cost",
    "search",
    "mcp",
    "serve",
    "mock_provider",
)
UNEXPECTED = 1


class Edge(TyperGroup):
    """Turns every error of a command into one clear line and an exit code; a stack trace only with `--debug`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        # Here all words are known, those of the command too.
        for word in args:
            if not is_well_formed(word):
                shown = output.visible(os.fsencode(word).decode("utf-8", "backslashreplace"))
                raise typer.BadParameter(f"{shown} is not text in UTF-8.", ctx=ctx, param_hint="command line")
        return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            _say("interrupted; what was done until then is kept")
            raise SystemExit(interrupt.INTERRUPTED) from None
        except (typer.Exit, typer.Abort, BrokenPipeError):
            raise
        except Exception as error:
            if _is_usage(error) or session.options.debug:
                raise
            raise SystemExit(_explained(error)) from None


def _is_usage(error: Exception) -> bool:
    """Wrong arguments: typer reports those itself, with exit code 2."""
    return hasattr(error, "format_message") and hasattr(error, "exit_code")


def _explained(error: Exception) -> int:
    """Prints what went wrong, one line per problem; returns the exit code."""
    from neo4j_queue.checks.boot import missing_database
    from neo4j_queue.checks.defaults import without_env_file
    from neo4j_queue.checks.unreachable import unreachable_database
    from neo4j_queue.errors import FaultKind, Neo4jQueueError, SettingsError, classify
    from neo4j_queue.errors.explain import exit_code_of, explain
    from neo4j_queue.settings import Settings
    from neo4j_queue.settings.readers import without_password

    if isinstance(error, SettingsError):
        lines = error.problems
    elif isinstance(error, Neo4jQueueError):
        lines = [str(error)]
    elif (line := missing_database(error, Settings.lenient())) is not None:
        lines = [line]
    elif (line := unreachable_database(error, Settings.lenient())) is not None:
        lines = [f"{line} (`neo4j-queue doctor` looks at every part)"]
    elif classify(error).kind is FaultKind.UNKNOWN:
        lines = [f"unexpected {type(error).__name__}: {explain(error)} (run it with --debug to see where)"]
    else:
        lines = [f"{explain(error)} (`neo4j-queue doctor` looks at every part)"]
    if _of_service(error) and (line := without_env_file(Settings.lenient())) is not None:
        lines = [*lines, line]
    for line in lines:
        _say(without_password(line))
    return exit_code_of(error)


def _of_service(error: BaseException | None) -> bool:
    """True if a service did not answer, or refused us: then the address may be the wrong one."""
    from neo4j.exceptions import DriverError, Neo4jError

    from neo4j_queue.errors import TemporarilyUnavailable

    while error is not None:
        if isinstance(error, Neo4jError | DriverError | TemporarilyUnavailable):
            return True
        error = error.__cause__
    return False


def _say(line: str) -> None:
    # Some errors have several lines, such as the end of a log.
    print(output.visible(f"neo4j-queue: {line}", lines=True), file=sys.stderr)


app = typer.Typer(
    name="neo4j-queue",
    cls=Edge,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="A fresh vector for every entity of a Neo4j graph: see, steer and repair the embedding queue.",
)


def _print_version(wanted: bool) -> None:
    if wanted:
        try:
            print(f"neo4j-queue {installed_version('neo4j-queue')}")
        except PackageNotFoundError:
            print("neo4j-queue, not installed: runs from its sources")
        raise typer.Exit


@app.callback(
    epilog="Exit codes: 0 done, 1 the answer is bad (unhealthy, not found), 2 usage, "
    "75 temporarily impossible (a database is down), 78 configuration."
)
def _options(
    log_format: Annotated[
        str, typer.Option(metavar="json|console", help="Log lines on stderr (default: LOG_FORMAT).")
    ] = "",
    verbose: Annotated[
        bool, typer.Option("--verbose", help="Show what libraries log as well, such as a database's retries.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the stack trace of an error.")] = False,
    version: Annotated[  # noqa: ARG001 (the callback acts on it)
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    log_format = log_format.lower()
    if log_format not in ("", "json", "console"):
        raise typer.BadParameter("must be json or console", param_hint="--log-format")
    session.options.style = log_format or None
    session.options.verbose = verbose
    session.options.debug = debug


for _group in GROUPS:
    import_module(f"{__name__}.{_group}").register(app)
interrupt.as_usual()


def main() -> None:
    """The console script."""
    interrupt.end_at_once_while_loading()
    driver.collect_seldom()
    try:
        app(prog_name="neo4j-queue")
    except KeyboardInterrupt:  # before the command line was read: later `Edge` handles it
        print(interrupt.LINE, file=sys.stderr)
        raise SystemExit(interrupt.INTERRUPTED) from None

"""`logs`: where the log of each local service lies, and its end."""

from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from neo4j_queue.cli import output, session

if TYPE_CHECKING:
    from collections.abc import Iterator

LINES, LINES_MAX = 20, 100_000


def register(app: typer.Typer) -> None:
    """Adds this module's command."""
    app.command()(logs)


def logs(
    service: Annotated[
        str | None,
        typer.Argument(
            metavar="SERVICE", help="Whose log to show, such as jobs; without it: where each lies."
        ),
    ] = None,
    lines: Annotated[
        int, typer.Option("--lines", "-n", min=1, max=LINES_MAX, help="So many, the last.")
    ] = LINES,
    directory: Annotated[
        Path | None, typer.Option(file_okay=False, help="Where the services live, as for `up`.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="The answer as JSON.")] = False,
) -> None:
    """Say where the log of each local service lies, those of `demo` too, or show the end of one.

    Workers and beat that you start yourself write to their standard error; in Docker it is `docker compose logs`.

    \b
    Examples:
      neo4j-queue logs
      neo4j-queue logs jobs
      neo4j-queue logs demo/embed --lines 100
    """
    from neo4j_queue.local_services import ServicesConfig

    root = (ServicesConfig(directory=directory) if directory else ServicesConfig()).directory
    found = dict(_logs(root))
    if service is None:
        _tell(root, found, json=json)
        return
    path = found.get(service)
    if path is None:
        known = f"; there are {', '.join(found)}" if found else f": nothing was ever started in {root}"
        session.refuse(f"no log of {service}{known}")
    with path.open(encoding="utf-8", errors="replace") as file:
        end = list(deque(file, lines))
    if json:
        output.print_json(
            {"service": service, "path": str(path), "lines": [line.rstrip("\n") for line in end]}
        )
        return
    print(f"{path}:")
    for line in end:
        output.print_line(line.rstrip("\n"))


def _logs(root: Path) -> "Iterator[tuple[str, Path]]":
    """The logs that are there, by the name of their service; those of the demo are below it."""
    for prefix, place in (("", root), ("demo/", root / "demo")):
        for log in sorted(place.glob("*/console.log")):
            yield f"{prefix}{log.parent.name}", log
    # Its Celery processes.
    for log in sorted((root / "demo").glob("logs/*.log")):
        yield f"demo/{log.stem}", log


def _tell(root: Path, found: "dict[str, Path]", *, json: bool) -> None:
    if json:
        output.print_json({name: str(path) for name, path in found.items()})
    elif found:
        rows = [[name, str(path), f"{path.stat().st_size / 1024:,.0f} kB"] for name, path in found.items()]
        output.print_table("", ["service", "log", "size"], rows)
        print("Its end: neo4j-queue logs SERVICE")
    else:
        print(f"Nothing was ever started in {root}.")

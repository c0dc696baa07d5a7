"""`demo`: the whole pipeline on a graph that every machine has, on services of its own."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from neo4j_queue.cli import output, services, session
from neo4j_queue.demo import GRAPH_PORT, JOBS_PORT, REDIS_PORT


class Provider(StrEnum):
    """What makes the vectors. `auto` = openai with a key, else local, else mock."""

    LOCAL = "local"
    OPENAI = "openai"
    MOCK = "mock"
    AUTO = "auto"


def register(app: typer.Typer) -> None:
    """Adds this module's command."""
    app.command()(demo)


def demo(
    question: Annotated[
        list[str] | None,
        typer.Option("--question", "--questions", "-q", help="What to ask at the end; may be given again."),
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Only so many entities.")] = None,
    provider: Annotated[
        Provider,
        typer.Option(
            case_sensitive=False, help="What makes the vectors; auto: openai with a key, else local."
        ),
    ] = Provider.LOCAL,
    stop: Annotated[
        bool, typer.Option("--stop/--keep", help="Stop the services at the end, or keep them to look around.")
    ] = False,
    graph_port: services.GraphPort = GRAPH_PORT,
    jobs_port: services.JobsPort = JOBS_PORT,
    redis_port: services.RedisPort = REDIS_PORT,
    directory: Annotated[
        Path | None,
        typer.Option(
            file_okay=False, help="Where data and logs live (default: $XDG_DATA_HOME/neo4j-queue/demo)."
        ),
    ] = None,
) -> None:
    """Embed the documentation of the Python standard library, and search it.

    Starts two Neo4j servers and Redis on ports of their own, loads some 5,800 entities, embeds them with real
    Celery workers and beat, shows the queue and answers questions by semantic search. Nothing leaves the machine
    with the local provider. Run it again whenever you like: what is embedded already is not embedded again.

    Exit code 1 when a job failed, an entity has no vector, or nothing moves; 75 when a service cannot be had, or when
    jobs or workers of another set-up are on these servers: the demo would end such jobs.

    \b
    Examples:
      neo4j-queue demo
      neo4j-queue demo --question "draw a random number" --question "read a zip archive"
      neo4j-queue demo --limit 1000 --stop
    """
    if any(not each.strip() for each in question or ()):
        raise typer.BadParameter("is blank", param_hint="--question")
    from neo4j_queue import log
    from neo4j_queue.demo import runner

    log.configure(
        "cli", style=session.options.style or "console", quiet_libraries=not session.options.verbose
    )
    options = runner.Options(
        questions=tuple(question or runner.QUESTIONS),
        limit=limit,
        provider=provider.value,
        stop=stop,
        services=runner.services_config(graph_port, jobs_port, redis_port, directory),
    )
    runner.run(options, say=_say, progress=output.progress, news=services.news)


def _say(line: str) -> None:
    # At once: a log that is followed shows each step when it happens.
    print(output.visible(line, lines=True), flush=True)

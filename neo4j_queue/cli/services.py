"""`up` and `down`: the two databases and Redis, on this machine, in Docker, or elsewhere."""

import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from neo4j_queue.cli import output, session

if TYPE_CHECKING:
    from rich.progress import TaskID

    from neo4j_queue.local_services import LocalServices, Progress, ServicesConfig
    from neo4j_queue.settings import Settings

# Seconds for containers to serve. Images are pulled and built before, so this is the boot of two databases.
DOCKER_READY_S = 180.0
ENV_FILE = Path(".env")


class Engine(StrEnum):
    """What runs the services."""

    LOCAL = "local"
    DOCKER = "docker"
    EXTERNAL = "external"


GraphPort = Annotated[int, typer.Option(min=1, max=65535, help="Port of the graph database.")]
JobsPort = Annotated[int, typer.Option(min=1, max=65535, help="Port of the jobs database.")]
RedisPort = Annotated[int, typer.Option(min=1, max=65535, help="Port of Redis.")]
Directory = Annotated[
    Path | None,
    typer.Option(file_okay=False, help="Where data and logs live (default: $XDG_DATA_HOME/neo4j-queue)."),
]
AnyEngine = Annotated[
    Engine,
    typer.Option(
        case_sensitive=False,
        help="local: processes of this machine; docker: compose.yaml; external: only check configured URIs.",
    ),
]
Service = dict[str, object]
Report = Callable[["Progress"], None]
AsJson = Annotated[bool, typer.Option("--json", help="The answer as JSON.")]


def register(app: typer.Typer) -> None:
    """Adds this module's commands."""
    app.command()(up)
    app.command()(down)


def up(
    graph_port: GraphPort = 7687,
    jobs_port: JobsPort = 7688,
    redis_port: RedisPort = 6379,
    directory: Directory = None,
    engine: AnyEngine = Engine.LOCAL,
    env_file: Annotated[
        bool, typer.Option("--env-file/--no-env-file", help="Write .env here if there is none.")
    ] = True,
    json: AsJson = False,
) -> None:
    """Start the graph database, the jobs database and Redis, and wait until they serve.

    What runs already is left as it is. The first time, the Neo4j files (120 MB) are fetched by Maven. The
    servers listen on the loopback address only and have no passwords. They go on running until `down`.

    Exit code 75 when a service cannot be had now: a program is missing, a port is taken, a server dies.

    \b
    Examples:
      neo4j-queue up
      neo4j-queue up --graph-port 17687 --jobs-port 17688 --redis-port 16379 --directory ./services
      neo4j-queue up --engine docker
      NEO4J_URI=neo4j+s://db.example.org neo4j-queue up --engine external
    """
    config = _config(graph_port, jobs_port, redis_port, directory)
    with news() as report:
        match engine:
            case Engine.LOCAL:
                environment, services = _up_local(config, report)
            case Engine.DOCKER:
                environment, services = _up_docker(config, report)
            case Engine.EXTERNAL:
                environment, services = _check_external()
                env_file = False
    written = _write_env_file(environment) if env_file else None
    if json:
        # Passwords stand in `.env` alone: an answer of a command ends in logs and pipes.
        shown = {name: _without_secret(name, value) for name, value in environment.items()}
        answer: dict[str, object] = {"engine": engine.value, "services": services, "environment": shown}
        output.print_json({**answer, "env_file": str(written) if written else None})
        return
    _tell(services, environment)
    _tell_env_file(environment, written, env_file)
    print("Next: neo4j-queue init")


def down(
    directory: Directory = None,
    engine: AnyEngine = Engine.LOCAL,
    everything: Annotated[bool, typer.Option("--all", help="The servers of `demo` too.")] = False,
    json: AsJson = False,
) -> None:
    """Stop what `up` started. Data and logs stay, so that the next `up` goes on where this one ended.

    The servers of `demo` are services of their own: --all stops them too, otherwise they are named.

    Exit code 1 when services were never started in the directory that was named.

    \b
    Examples:
      neo4j-queue down
      neo4j-queue down --all
      neo4j-queue down --directory ./services
      neo4j-queue down --engine docker
    """
    from neo4j_queue.local_services import LocalServices, ServicesConfig
    from neo4j_queue.local_services.docker import Compose

    if everything and (directory is not None or engine is not Engine.LOCAL):
        raise typer.BadParameter("goes with neither --directory nor --engine", param_hint="--all")
    config = ServicesConfig(directory=directory) if directory else ServicesConfig()
    demo = LocalServices(ServicesConfig(directory=config.directory / "demo"))
    stranger = False
    with news() as report:
        match engine:
            case Engine.LOCAL:
                services = LocalServices(config, report)
                # A named directory without services is probably a typing error: other services go on running.
                stranger = directory is not None and not services.ever_up
                stopped = services.down()
                if everything:
                    stopped += [f"{name} of the demo" for name in demo.down()]
            case Engine.DOCKER:
                Compose(config, report).down()
                stopped = ["docker"]
            case Engine.EXTERNAL:
                raise typer.BadParameter("external services are not ours to stop", param_hint="--engine")
    if json:
        output.print_json({"engine": engine.value, "stopped": stopped})
    elif stopped:
        print(f"stopped: {', '.join(stopped)}")
    elif not stranger:
        print(f"nothing of {config.directory} was running")
    if engine is Engine.LOCAL and directory is None:
        _tell_running(demo)
    if stranger:
        why = "services were never started there" if config.directory.is_dir() else "it does not exist"
        session.refuse(f"nothing runs in {config.directory}: {why}")


def _tell_running(demo: "LocalServices") -> None:
    running = [f"{each.name} (process {each.pid})" for each in demo.status() if each.pid is not None]
    if running:
        session.warn(
            f"the demo's servers go on running: {', '.join(running)}; `neo4j-queue down --all` stops them"
        )


def _config(graph_port: int, jobs_port: int, redis_port: int, directory: Path | None) -> "ServicesConfig":
    from neo4j_queue.local_services import ServicesConfig

    try:
        config = ServicesConfig(graph_port, jobs_port, redis_port)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    return config if directory is None else ServicesConfig(graph_port, jobs_port, redis_port, directory)


def _up_local(config: "ServicesConfig", report: Report) -> tuple[dict[str, str], list[Service]]:
    from neo4j_queue.local_services import LocalServices

    local = LocalServices(config, report)
    local.up()
    services: list[Service] = [
        {"name": each.name, "url": each.url, "pid": each.pid, "log": str(each.log)} for each in local.status()
    ]
    return local.environment(), services


def _up_docker(config: "ServicesConfig", report: Report) -> tuple[dict[str, str], list[Service]]:
    from neo4j_queue.local_services import LocalServices
    from neo4j_queue.local_services.docker import Compose
    from neo4j_queue.settings import Settings

    session.load_settings()  # what is wrong in them is said before anything starts
    Compose(config, report).up()
    environment = LocalServices(config).environment()
    # What else is configured (a password) holds for the containers too.
    places: dict[str, Any] = {name.lower(): value for name, value in environment.items()}
    settings = Settings(**places)
    return environment, _reached(settings, DOCKER_READY_S)


def _check_external() -> tuple[dict[str, str], list[Service]]:
    settings = session.load_settings()
    environment = {
        "NEO4J_URI": settings.neo4j_uri,
        "NEO4J_DATABASE": settings.neo4j_database,
        "EMBED_JOB_DATABASE_URI": settings.embed_job_database_uri,
        "EMBED_JOB_DATABASE_NAME": settings.embed_job_database_name,
        "CELERY_BROKER_URL": settings.celery_broker_url,
    }
    return environment, _reached(settings, 0.0)


def _without_secret(name: str, value: str) -> str:
    from neo4j_queue.settings.readers import without_password

    return "***" if name.endswith("_PASSWORD") else without_password(value)


def _reached(settings: "Settings", wait_s: float) -> list[Service]:
    """Waits until all three answer. Raises `TemporarilyUnavailable`, `SettingsError`."""
    from neo4j_queue.checks import boot
    from neo4j_queue.database import Database
    from neo4j_queue.settings.readers import without_password

    # The driver does not retry: `wait_for` asks again by itself.
    with (
        Database(settings.graph_address(), retry_time_s=0) as graph,
        Database(settings.jobs_address(), retry_time_s=0) as jobs,
    ):
        boot.wait_for(
            {
                "graph": lambda: boot.ping(graph, "NEO4J"),
                "jobs": lambda: boot.ping(jobs, "EMBED_JOB_DATABASE"),
                "redis": lambda: _ping_broker(settings.celery_broker_url),
            },
            wait_s=wait_s,
        )
    urls = (settings.neo4j_uri, settings.embed_job_database_uri, settings.celery_broker_url)
    return [
        {"name": name, "url": without_password(url)}
        for name, url in zip(("graph", "jobs", "redis"), urls, strict=True)
    ]


def _ping_broker(url: str) -> None:
    from neo4j_queue.checks.doctor import Grade
    from neo4j_queue.errors import TemporarilyUnavailable
    from tasks import broker

    finding = broker.examine(url)
    if finding.grade is Grade.BAD:
        raise TemporarilyUnavailable(finding.detail)


def _write_env_file(environment: Mapping[str, str]) -> Path | None:
    """Writes `.env` into the current directory, for this user alone; None, and nothing changed, where there is one."""
    lines = ["# Written by `neo4j-queue up`. Every setting: .env.example."]
    lines += [f"{name}={value}" for name, value in environment.items()]
    try:
        # Exclusive: a file that appears at this moment is not overwritten either.
        with open(ENV_FILE, "x", encoding="utf-8", opener=_private) as file:
            file.write("\n".join(lines) + "\n")
    except FileExistsError:
        return None
    return ENV_FILE.resolve()


def _private(path: str, flags: int) -> int:
    # People add keys and passwords to the file.
    return os.open(path, flags, mode=0o600)


def _tell(services: list[Service], environment: Mapping[str, str]) -> None:
    from neo4j_queue.settings.readers import without_password

    rows = [[each["name"], each["url"], str(each.get("pid") or ""), each.get("log")] for each in services]
    output.print_table("", ["service", "address", "process", "log"], rows)
    print("Settings for these services:")
    for name, value in environment.items():
        print(f"  {name}={without_password(value)}")


def _tell_env_file(environment: Mapping[str, str], written: Path | None, wanted: bool) -> None:
    from neo4j_queue.settings.readers import without_password

    if written:
        print(f"They are written to {written}")
    elif wanted:
        from dotenv import dotenv_values

        from neo4j_queue.settings import env_file

        print(f"{ENV_FILE.resolve()} was there and is left as it is")
        trouble = env_file.trouble(ENV_FILE)
        if trouble is not None:
            session.warn(trouble)
            return
        there = dotenv_values(ENV_FILE)
        for name, value in environment.items():
            # The retention is the operator's choice, not a fact about these services.
            if name != "EMBED_JOB_RETENTION_DAYS" and there.get(name) != value:
                session.warn(f"{ENV_FILE} has {name}={without_password(there.get(name) or '')}, not {value}")


@contextmanager
def news() -> Iterator[Report]:
    """Shows what the services are doing, on stderr: moving lines on a terminal, plain ones in a pipe."""
    if sys.stderr.isatty():
        with _moving_lines() as report:
            yield report
    else:
        yield _plain_lines()


@contextmanager
def _moving_lines() -> Iterator[Report]:
    from rich.console import Console
    from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Display

    columns = (
        SpinnerColumn(finished_text="✓"),
        TextColumn("{task.description:<8}"),
        BarColumn(bar_width=24),
        TextColumn("{task.fields[message]}", markup=False),
        TimeRemainingColumn(),
    )
    with Display(*columns, console=Console(stderr=True)) as display:
        tasks: dict[str, TaskID] = {}

        def report(news: "Progress") -> None:
            if news.step not in tasks:
                tasks[news.step] = display.add_task(news.step, total=None, message="")
            done, total = (1, 1) if news.finished else (news.done, news.total)
            display.update(tasks[news.step], completed=done, total=total, message=news.message)

        yield report


def _plain_lines() -> Report:
    began = time.monotonic()
    said = began

    def report(news: "Progress") -> None:
        nonlocal said
        line = f"{news.step}: {news.message}"
        if news.done and news.total:
            now = time.monotonic()
            if now - said < output.PLAIN_EVERY_S:
                return
            said = now
            left_s = (now - began) / news.done * (news.total - news.done)
            line += f", about {output.duration(left_s)} left"
        print(line, file=sys.stderr, flush=True)

    return report

"""`up` and `down`: the two databases and Redis, on this machine, in Docker, or elsewhere."""

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from neo4j_queue.cli import env_file, output, session
from neo4j_queue.cli.env_file import ENV_FILE

if TYPE_CHECKING:
    from rich.progress import TaskID

    from neo4j_queue.local_services import LocalServices, Progress, ServicesConfig
    from neo4j_queue.settings import Settings

# Seconds for containers to serve. Images are pulled and built before, so this is the boot of two databases.
DOCKER_READY_S = 180.0
# In the directory of local services: what `.env` needs for them, for one that was there before.
SERVICES_FILE = "services.env"


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
    with_env_file: Annotated[
        bool, typer.Option("--env-file/--no-env-file", help="Write .env here if there is none.")
    ] = True,
    add_passwords: Annotated[
        bool, typer.Option("--add-passwords", help="Give services that were made without passwords some.")
    ] = False,
    flower: Annotated[
        bool, typer.Option("--flower", help="Flower too, behind a password, on --flower-port.")
    ] = False,
    flower_port: Annotated[int, typer.Option(min=1, max=65535, help="Port of Flower.")] = 5555,
    json: AsJson = False,
) -> None:
    """Start the graph database, the jobs database and Redis, and wait until they serve.

    What runs already is left as it is. The first time, the Neo4j files (120 MB) are fetched by Maven, and passwords
    are made: they stand in `.env` and, with all settings, in `services.env` of the directory, both for you alone.
    The servers listen on the loopback address only. They go on running until `down`.

    Exit code 75 when a service cannot be had now: a program is missing, a port is taken, a server dies.

    \b
    Examples:
      neo4j-queue up
      neo4j-queue up --graph-port 17687 --jobs-port 17688 --redis-port 16379 --directory ./services
      neo4j-queue up --flower
      neo4j-queue up --engine docker
      NEO4J_URI=neo4j+s://db.example.org neo4j-queue up --engine external
    """
    for wanted, option in ((add_passwords, "--add-passwords"), (flower, "--flower")):
        if wanted and engine is not Engine.LOCAL:
            raise typer.BadParameter("goes with --engine local", param_hint=option)
    config = _config(graph_port, jobs_port, redis_port, flower_port, directory)
    written: Path | None = None
    file: Path | None = None
    with news() as report:
        match engine:
            case Engine.LOCAL:
                environment, services = _up_local(config, report, add_passwords=add_passwords, flower=flower)
                file = config.directory / SERVICES_FILE
            case Engine.DOCKER:
                # Before the start: the containers take their passwords from it.
                written = _prepare_env_file(config) if with_env_file else None
                environment, services = _up_docker(config, report)
            case Engine.EXTERNAL:
                environment, services = _check_external()
                with_env_file = False
    if with_env_file and engine is Engine.LOCAL:
        written = env_file.write(environment)
    if json:
        # Passwords stand in `.env` alone: an answer of a command ends in logs and pipes.
        shown = {name: env_file.without_secret(name, value) for name, value in environment.items()}
        answer: dict[str, object] = {"engine": engine.value, "services": services, "environment": shown}
        files = {"env_file": written, "services_file": file}
        output.print_json({**answer, **{name: str(each) if each else None for name, each in files.items()}})
        return
    _tell(services, environment)
    if with_env_file:
        env_file.tell(environment, written, file)
    elif file:
        print(f"They are in {file}, passwords included")
    if file:
        _tell_passwords(environment, file, flower=flower)
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


def _config(
    graph_port: int, jobs_port: int, redis_port: int, flower_port: int, directory: Path | None
) -> "ServicesConfig":
    from neo4j_queue.local_services import ServicesConfig
    from neo4j_queue.local_services.config import data_directory

    place = directory or data_directory()
    try:
        return ServicesConfig(graph_port, jobs_port, redis_port, place, flower_port=flower_port)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def _up_local(
    config: "ServicesConfig", report: Report, *, add_passwords: bool, flower: bool
) -> tuple[dict[str, str], list[Service]]:
    from neo4j_queue.local_services import LocalServices
    from neo4j_queue.local_services.compose_env import FLOWER
    from neo4j_queue.local_services.passwords import write_private

    local = LocalServices(config, report)
    local.up(add_passwords=add_passwords, flower=flower)
    passwords = local.passwords()
    # Only there: no program of ours reads it, a person types it into a browser.
    for_people = {FLOWER: passwords.flower} if passwords else {}
    entries = {**local.environment(), **for_people}
    write_private(config.directory / SERVICES_FILE, env_file.lines_of(entries))
    services: list[Service] = [
        {"name": each.name, "url": each.url, "pid": each.pid, "log": str(each.log)} for each in local.status()
    ]
    return local.environment(), services


def _prepare_env_file(config: "ServicesConfig") -> Path | None:
    """As `env_file.write`, with the passwords of compose.yaml, which are added to one that is there too."""
    from neo4j_queue.local_services import LocalServices, compose_env

    session.load_settings()  # what is wrong in them is said before anything is written
    written = env_file.write(LocalServices(config).places())
    compose_env.prepare(ENV_FILE)
    return written


def _up_docker(config: "ServicesConfig", report: Report) -> tuple[dict[str, str], list[Service]]:
    from neo4j_queue.local_services import LocalServices, compose_env
    from neo4j_queue.local_services.docker import Compose
    from neo4j_queue.settings import Settings

    session.load_settings(warn_of_names=False)  # what is wrong in them is said before anything starts
    Compose(config, report).up()
    environment = LocalServices(config).places() | compose_env.entry(ENV_FILE, config.redis_port)
    # What else is configured holds for the containers too.
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
    from neo4j_queue.checks.findings import Grade
    from neo4j_queue.errors import TemporarilyUnavailable
    from tasks import broker

    finding = broker.examine(url)
    if finding.grade is Grade.BAD:
        raise TemporarilyUnavailable(finding.detail)


def _tell(services: list[Service], environment: Mapping[str, str]) -> None:
    rows = [[each["name"], each["url"], str(each.get("pid") or ""), each.get("log")] for each in services]
    output.print_table("", ["service", "address", "process", "log"], rows)
    print("Settings for these services:")
    for name, value in environment.items():
        print(f"  {name}={env_file.without_secret(name, value)}")


def _tell_passwords(environment: Mapping[str, str], file: Path, *, flower: bool) -> None:
    from neo4j_queue.local_services.compose_env import FLOWER
    from neo4j_queue.local_services.flower_server import USER

    if "NEO4J_PASSWORD" not in environment:
        session.warn(
            f"the services of {file.parent} have no passwords, so that any web page open on this machine can reach "
            "them. To give them some: neo4j-queue down, neo4j-queue up --add-passwords"
        )
    if flower:
        print(f"Flower asks for a name, {USER}, and a password, which is {FLOWER} in {file}")


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

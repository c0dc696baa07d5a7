"""What a worker or beat checks before it takes work.

`check` waits for services that are away (then `TemporarilyUnavailable`, exit code 75) and refuses a
configuration that cannot work (`SettingsError`, exit code 78) with every problem in one go.
"""

import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace

from neo4j.exceptions import DriverError, Neo4jError

from neo4j_queue import embedders, schema
from neo4j_queue.checks import fingerprint, in_force
from neo4j_queue.checks.servers import outdated
from neo4j_queue.cypher import statement
from neo4j_queue.database import Address, Database
from neo4j_queue.embedders import ModelSpec
from neo4j_queue.errors import SettingsError, TemporarilyUnavailable
from neo4j_queue.errors.explain import explain, is_temporary
from neo4j_queue.log import get_logger
from neo4j_queue.settings import Role, Settings
from neo4j_queue.settings.unknown_names import suspicious_names

# Two minutes: a Neo4j server that starts beside us on a busy machine needs about half a minute; the supervisor
# (systemd, compose) starts us again after we gave up.
WAIT_S = 120.0
POLL_S = 1.0
# Seconds between two lines about the same wait: the log shows it and does not fill with it.
REPEAT_S = 15.0


NO_DATABASE = "Neo.ClientError.Database.DatabaseNotFound"

Probe = Callable[[], None]
Clock = Callable[[], float]
Sleep = Callable[[float], None]

log = get_logger()


def check(
    settings: Settings,
    role: Role,
    *,
    ping_broker: Probe | None = None,
    wait_s: float = WAIT_S,
    clock: Clock = time.monotonic,
    sleep: Sleep = time.sleep,
) -> str:
    """Waits until everything that work needs is there and fits together; returns the fingerprint of the settings.

    `ping_broker` raises `TemporarilyUnavailable` while the broker does not answer (this package knows no
    broker). Raises `TemporarilyUnavailable` when a service is still away after `wait_s` seconds, and
    `SettingsError` with all problems when waiting would not help. No connection stays open, so that the
    process may fork afterwards.
    """
    for line in suspicious_names():
        log.warning("unknown_setting", hint=line)
    with ExitStack() as stack:
        graph = stack.enter_context(Database(settings.graph_address(), retry_time_s=0))
        jobs = stack.enter_context(Database(settings.jobs_address(), retry_time_s=0))
        probes: dict[str, Probe] = {
            "graph database": lambda: ping(graph, "NEO4J"),
            "jobs database": lambda: ping(jobs, "EMBED_JOB_DATABASE"),
        }
        if ping_broker is not None:
            probes["broker"] = ping_broker
        began = clock()
        wait_for(probes, wait_s=wait_s, clock=clock, sleep=sleep)
        marks: list[str] = []
        # A database that answered a moment ago may go away again while it is looked at.
        left_s = max(0.0, began + wait_s - clock())
        look = lambda: marks.append(_look(graph, jobs, settings))  # noqa: E731
        wait_for({"databases": look}, wait_s=left_s, clock=clock, sleep=sleep)
    log.info("boot_checked", role=role, graph=settings.neo4j_uri, jobs=settings.embed_job_database_uri)
    return marks[0]


def _look(graph: Database, jobs: Database, settings: Settings) -> str:
    """The settings' fingerprint, if everything fits together."""
    try:
        found = problems(graph, jobs, settings)
        mark = fingerprint.fingerprint(settings, graph)
        if not found:
            in_force.check(jobs, mark)
    except (Neo4jError, DriverError) as error:
        if is_temporary(error):
            raise TemporarilyUnavailable(explain(error)) from error
        raise SettingsError([explain(error)]) from error
    if found:
        raise SettingsError(found)
    return mark


def wait_for(
    probes: Mapping[str, Probe],
    *,
    wait_s: float,
    clock: Clock = time.monotonic,
    sleep: Sleep = time.sleep,
) -> None:
    """Asks each service until all have answered once, and says in the log which ones it waits for.

    A probe raises `TemporarilyUnavailable` for "not yet"; any other error of it ends the wait at once.
    """
    start = clock()
    missing = dict(probes)
    said: tuple[tuple[str, ...], float] = ((), start)
    while True:
        reasons: dict[str, str] = {}
        for name, probe in missing.items():
            try:
                probe()
            except TemporarilyUnavailable as reason:
                reasons[name] = str(reason)
        missing = {name: missing[name] for name in reasons}
        waited_s = clock() - start
        if not missing:
            if said[0]:
                log.info("services_ready", waited_s=round(waited_s, 1))
            return
        if waited_s >= wait_s:
            detail = "; ".join(f"{name}: {reason}" for name, reason in reasons.items())
            raise TemporarilyUnavailable(f"gave up after {waited_s:.0f} s of waiting for {detail}")
        if tuple(missing) != said[0] or clock() - said[1] >= REPEAT_S:
            log.warning("waiting_for_services", waited_s=round(waited_s, 1), wait_s=wait_s, services=reasons)
            said = (tuple(missing), clock())
        sleep(min(POLL_S, max(0.0, wait_s - waited_s)))


def ping(database: Database, prefix: str) -> None:
    """Checks that a database answers and that its server is new enough.

    Raises `TemporarilyUnavailable` when trying again makes sense, else `SettingsError`, which names the
    variables by their `prefix` (`NEO4J` or `EMBED_JOB_DATABASE`).
    """
    try:
        too_old = outdated(database.agent())
    except (Neo4jError, DriverError) as error:
        reason = explain(error)
        address = database.address
        if is_temporary(error):
            raise TemporarilyUnavailable(f"{address.uri} ({address.database}): {reason}") from error
        if isinstance(error, Neo4jError) and error.code == NO_DATABASE:
            raise SettingsError([_no_database(_blamed(error, prefix), address)]) from error
        raise SettingsError([f"{_blamed(error, prefix)}: {address.uri} says: {reason}"]) from error
    if too_old:
        raise SettingsError([f"{prefix}_URI={database.address.uri}: {too_old}: upgrade the server"])


def missing_database(error: Exception, settings: Settings) -> str | None:
    """One line that names the database that does not exist and its variable; None for any other error."""
    if not isinstance(error, Neo4jError) or error.code != NO_DATABASE:
        return None
    addresses = {
        "NEO4J_DATABASE": settings.graph_address(),
        "EMBED_JOB_DATABASE_NAME": settings.jobs_address(),
    }
    # The server names the database, not the setting that asked for it.
    words = {word.strip(".,:'\"`") for word in explain(error).split()}
    lines = [_no_database(name, each) for name, each in addresses.items() if each.database in words]
    return " or ".join(lines) or None


def _no_database(variable: str, address: Address) -> str:
    missing = f"{variable}={address.database}: {address.uri} has no database of this name"
    there = _databases(address)
    return f"{missing}; there {'is' if len(there) == 1 else 'are'} {', '.join(there)}" if there else missing


def _databases(address: Address) -> list[str]:
    """The databases of that server; none where it does not say."""
    try:
        with Database(replace(address, database="system"), retry_time_s=0) as system:
            return [row["name"] for row in system.read(statement("server/databases"))]
    except (Neo4jError, DriverError):
        return []


def _blamed(error: Exception, prefix: str) -> str:
    code = error.code or "" if isinstance(error, Neo4jError) else ""
    if code.startswith("Neo.ClientError.Database."):
        return "NEO4J_DATABASE" if prefix == "NEO4J" else f"{prefix}_NAME"
    if code.startswith("Neo.ClientError.Security."):
        return f"{prefix}_USERNAME, {prefix}_PASSWORD"
    return f"{prefix}_URI"


def problems(graph: Database, jobs: Database, settings: Settings) -> list[str]:
    """Everything that does not fit together, one line each with what to do. Both databases must answer."""
    if same_store(graph, jobs):
        # Every other finding would follow from this one.
        return [
            f"EMBED_JOB_DATABASE_URI={settings.embed_job_database_uri}, "
            f"EMBED_JOB_DATABASE_NAME={settings.embed_job_database_name}: this is the graph's own store; "
            "jobs need a database of their own (on Community: a server of their own)"
        ]
    try:
        spec = embedders.describe(settings)
    except SettingsError as error:
        return [*schema.check_jobs(jobs).problems, *error.problems]
    return [
        *width_problems(settings, spec),
        *(embedders.environment_problems() if spec.provider == "openai" else ()),
        *schema.check_jobs(jobs).problems,
        *schema.check_graph(graph, settings, count_keys=False).problems,
    ]


def width_problems(settings: Settings, spec: ModelSpec) -> list[str]:
    """One line if the width that is set is not the one that the model gives, as known or as asked for."""
    wanted = settings.neo4j_vector_dimensions or spec.dimensions
    if wanted == spec.dimensions:
        return []
    return [f"NEO4J_VECTOR_DIMENSIONS={wanted}: the model {spec.model} gives {spec.dimensions}"]


def model_problems(settings: Settings) -> list[str]:
    """`width_problems` of the model that the settings mean, or why its width cannot be known."""
    try:
        return width_problems(settings, embedders.describe(settings))
    except SettingsError as error:
        return error.problems


def same_store(graph: Database, jobs: Database) -> bool:
    """True if both lead to one database, even by two names of one host."""
    (one,), (other,) = graph.read(statement("server/store")), jobs.read(statement("server/store"))
    return bool(one["id"] == other["id"])

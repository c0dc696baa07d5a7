"""The doctor: looks at every part, with a verdict on each and what to do about it.

The boot check stops at what makes work impossible. The doctor goes on after each finding, and also names what merely
costs something: a mock provider, no APOC, a clock that is off, no worker.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from neo4j.exceptions import DriverError, Neo4jError

from neo4j_queue import embedders, schema
from neo4j_queue.checks import boot, fingerprint, graph_names, health, in_force, timestamps
from neo4j_queue.checks.defaults import without_env_file
from neo4j_queue.checks.findings import Finding, Grade
from neo4j_queue.checks.servers import BOUNDED, endless
from neo4j_queue.checks.triggers import lines as trigger_lines
from neo4j_queue.checks.unreachable import why_unreachable
from neo4j_queue.cypher import statement
from neo4j_queue.database import Database
from neo4j_queue.errors import SettingsError, TemporarilyUnavailable, WrongWidth
from neo4j_queue.graph.keys import SAMPLE, left_out, without_key_of
from neo4j_queue.providers import prefixes_of
from neo4j_queue.queue import EmbedQueue
from neo4j_queue.queue.reasons import Code, HealthState, Reason
from neo4j_queue.schema import triggers
from neo4j_queue.schema.graph_schema import GraphSchema
from neo4j_queue.schema.leftovers import leftovers
from neo4j_queue.settings import Settings
from neo4j_queue.settings.settings import RETENTION_DAYS_MAX, RETENTION_DAYS_MIN
from neo4j_queue.settings.unknown_names import suspicious_names

# Leases use the server's clock alone. Beyond this, times in logs and tables mislead people.
CLOCK_SKEW_S = 2.0
# With a free slot a due job starts within a second; after ten minutes the queue does not drain.
OLD_PENDING_S = 600.0
OTHERS = "changes by others"
# The rests because of the provider, which are pauses too.
RESTS = frozenset({Code.PROVIDER_OUTAGE, Code.QUOTA_USED_UP, Code.RATE_LIMITED})
ADVICE = {
    Code.HALTED: "mend what the reason names, restart the workers if it was a setting (they read them at their start), "
    "then `neo4j-queue resume`",
    Code.NO_LEASE_TICK: "start or restart beat (`celery -A tasks beat`) and the control worker "
    "(`celery -A tasks worker -Q control`)",
    Code.PAUSED: "it goes on by itself; `neo4j-queue resume` ends the pause now",
    Code.PROVIDER_OUTAGE: "it goes on by itself when the provider answers a probe",
    Code.QUOTA_USED_UP: "pay for more, or wait: it goes on by itself when the provider answers a probe",
    Code.RATE_LIMITED: "set EMBEDDING_RATE_LIMIT_TOKENS to what the provider allows",
    Code.STANDSTILL: "look into the log of the workers",
    Code.DEAD_LETTERS: "`neo4j-queue dead stats` tells why, `neo4j-queue dead replay --all` tries all again",
    Code.JOBS_DATABASE_READ_ONLY: "make its server writable, or free its disk: until then nothing is queued, leased or "
    "settled",
}


def examine(settings: Settings, *, broker: Callable[[], list[Finding]] | None = None) -> list[Finding]:
    """Looks at everything; what is wrong is a finding, not an exception. `broker` looks at the dispatch broker."""
    provider = _provider(settings)
    found = [*_settings(settings), provider]
    with (
        Database(settings.graph_address(), retry_time_s=0) as graph,
        Database(settings.jobs_address(), retry_time_s=0) as jobs,
    ):
        graph_up = _look(found, settings, "graph database", lambda: _server(graph, "graph database", "NEO4J"))
        jobs_up = _look(
            found, settings, "jobs database", lambda: _server(jobs, "jobs database", "EMBED_JOB_DATABASE")
        )
        if graph_up and jobs_up:
            _look(found, settings, "two databases", lambda: _two_stores(graph, jobs, settings))
        if jobs_up:
            _look(found, settings, "APOC", lambda: _apoc(jobs))
            prepared = _look(
                found, settings, "jobs schema", lambda: _report("jobs schema", schema.check_jobs(jobs))
            )
            if prepared:
                _look(
                    found,
                    settings,
                    "queue",
                    lambda: _queue(EmbedQueue(jobs, settings), settings, asked=broker is not None),
                )
                if provider.grade is not Grade.BAD:
                    look = lambda: _refuted(EmbedQueue(jobs, settings), settings)  # noqa: E731
                    if not _look(found, settings, "provider", look):
                        # What was answered proves more than the settings do.
                        found.remove(provider)
                mark = fingerprint.fingerprint(settings, graph if graph_up else None)
                _look(found, settings, "workers", lambda: _agreement(EmbedQueue(jobs, settings), mark))
                _look(found, settings, "settings", lambda: _in_force(jobs, mark))
        if graph_up:
            check = lambda: _report("graph schema", schema.check_graph(graph, settings))  # noqa: E731
            _look(found, settings, "graph schema", check)
            _look(found, settings, "graph schema", lambda: _leftovers(graph, settings))
            _look(found, settings, "entities", lambda: _entities(graph, settings))
            _look(found, settings, OTHERS, lambda: _timestamps(graph, settings))
            if jobs_up:
                _look(found, settings, OTHERS, lambda: _trigger(graph, jobs, settings))
        line = None if graph_up and jobs_up else without_env_file(settings)
        if line is not None:
            found.append(
                Finding("settings", Grade.WARNING, line, "run it where .env is, or set the variables")
            )
    if broker is not None:
        _look(found, settings, "broker", broker)
    return found


def _look(found: list[Finding], settings: Settings, subject: str, look: Callable[[], list[Finding]]) -> bool:
    """Adds what a look finds; an error of a database is a finding too. True when nothing is bad."""
    try:
        new = look()
    except SettingsError as error:
        new = [Finding(subject, Grade.BAD, problem) for problem in error.problems]
    except TemporarilyUnavailable as error:
        new = [Finding(subject, Grade.BAD, str(error), "start it (`neo4j-queue up` for local services)")]
    except (Neo4jError, DriverError) as error:
        new = [Finding(subject, Grade.BAD, why_unreachable(error, settings))]
    found.extend(new)
    return all(finding.grade is not Grade.BAD for finding in new)


def _settings(settings: Settings) -> list[Finding]:
    found = [Finding("settings", Grade.WARNING, line) for line in suspicious_names()]
    if settings.embed_job_retention_days is None:
        advice = (
            f"set it to {RETENTION_DAYS_MIN} to {RETENTION_DAYS_MAX}; worker and beat do not start without it"
        )
        found.append(Finding("settings", Grade.BAD, "EMBED_JOB_RETENTION_DAYS is missing", advice))
    return found or [Finding("settings", Grade.OK, "all valid")]


def _provider(settings: Settings) -> Finding:
    try:
        spec = embedders.describe(settings)
    except SettingsError as error:
        return Finding("provider", Grade.BAD, str(error))
    if problems := boot.width_problems(settings, spec):
        advice = (
            "set it to the model's width, or leave it out; OPENAI_EMBEDDING_DIMENSIONS asks for another width"
        )
        return Finding("provider", Grade.BAD, problems[0], advice)
    if spec.provider == "openai" and (problems := embedders.environment_problems()):
        return Finding("provider", Grade.BAD, "; ".join(problems))
    profile = embedders.profile_of(settings)
    detail = (
        f"{spec.provider}, model {spec.model}, {spec.dimensions} dimensions; limits of {profile.name}: "
        f"{profile.max_inputs} texts and {profile.max_request_tokens} tokens per request, "
        f"{profile.max_input_tokens} per text{_prefix_note(settings, spec.provider)}"
    )
    if spec.provider == "mock":
        advice = "search finds nothing by meaning with it: set OPENAI_API_KEY, or install neo4j-queue[local]"
        return Finding("provider", Grade.WARNING, detail, advice)
    return Finding("provider", Grade.OK, detail)


def _prefix_note(settings: Settings, provider: str) -> str:
    """Says which prefixes the model was trained with, where none is set: searches find more with them."""
    wanted = prefixes_of(settings.openai_embedding_model) if provider == "openai" else None
    if wanted is None or settings.embed_passage_prefix or settings.embed_query_prefix:
        return ""
    return (
        f'; made for EMBED_PASSAGE_PREFIX="{wanted.passage}" and EMBED_QUERY_PREFIX="{wanted.query}", '
        "neither is set (a change embeds everything anew)"
    )


def _refuted(queue: EmbedQueue, settings: Settings) -> list[Finding]:
    """A finding if an answer had another width than the one that is configured now; the halt that followed names it."""
    spec = embedders.describe(settings)
    state = queue.control.state()
    refuted = f"{WrongWidth.__name__}: {WrongWidth.disagreement(spec.model, spec.dimensions)}"
    if not state.halted or not (state.halted_reason or "").startswith(refuted):
        return []
    fact, _, advice = (state.halted_reason or "").removeprefix(f"{WrongWidth.__name__}: ").partition(": ")
    return [Finding("provider", Grade.BAD, fact, advice or None)]


def _server(database: Database, subject: str, prefix: str) -> list[Finding]:
    boot.ping(database, prefix)
    asked = time.time()
    (about,) = database.read(statement("server/about"))
    answered = time.time()
    address = database.address
    detail = f"{address.uri} ({address.database}) answers, Neo4j {about['version']} {about['edition']}"
    found = [Finding(subject, Grade.OK, detail)]
    # The answer is between the two readings of our clock; only what lies outside is skew.
    server_s = about["clock_ms"] / 1000
    skew_s = max(asked - server_s, server_s - answered, 0.0)
    if skew_s > CLOCK_SKEW_S:
        side = "behind" if server_s < asked else "ahead of"
        detail = f"its clock is {skew_s:.1f} s {side} this machine's"
        advice = "set both by NTP; leases are not harmed (they run on the server's clock), people are misled"
        found.append(Finding(f"{subject} clock", Grade.WARNING, detail, advice))
    return [*found, *_unbounded(subject, endless(database))]


def _unbounded(subject: str, names: Sequence[str]) -> list[Finding]:
    if not names:
        return []
    detail = f"endless in its configuration: {', '.join(names)}; a lost client can hold up all others"
    advice = f"set in neo4j.conf: {', '.join(f'{name}={BOUNDED[name]}' for name in names)}"
    return [Finding(f"{subject} limits", Grade.WARNING, detail, advice)]


def _two_stores(graph: Database, jobs: Database, settings: Settings) -> list[Finding]:
    subject = "two databases"
    if boot.same_store(graph, jobs):
        advice = "give the jobs a database of their own (on Community: a server of their own)"
        return [Finding(subject, Grade.BAD, "graph and jobs are the same store", advice)]
    label = settings.embed_entity_label
    (in_graph,) = graph.read(statement("server/misplaced", label=label))
    (in_jobs,) = jobs.read(statement("server/misplaced", label=label))
    if in_graph["jobs"] and not in_jobs["jobs"]:
        advice = "swap NEO4J_URI and EMBED_JOB_DATABASE_URI (with their names and credentials)"
        return [Finding(subject, Grade.BAD, "the jobs are in the graph database: swapped?", advice)]
    if in_graph["jobs"]:
        advice = "they were made by another set-up; remove them from the graph when they are not needed"
        return [Finding(subject, Grade.WARNING, "there are jobs in the graph database too", advice)]
    if in_jobs["entities"]:
        return [Finding(subject, Grade.WARNING, f"there are :{label} nodes in the jobs database")]
    return [Finding(subject, Grade.OK, "graph and jobs are stores of their own")]


def _apoc(jobs: Database) -> list[Finding]:
    (row,) = jobs.read(statement("server/apoc"))
    if row["procedures"]:
        return [Finding("APOC", Grade.OK, "apoc.periodic.iterate is there")]
    advice = "clean-up works without it, page by page; to have it, add APOC core and allow apoc.*"
    return [Finding("APOC", Grade.WARNING, "not installed on the jobs server, or not allowed", advice)]


def _report(subject: str, report: schema.Report) -> list[Finding]:
    # Each problem of a schema report says itself what to do.
    found = [Finding(subject, Grade.BAD, problem) for problem in report.problems]
    found += [Finding(subject, Grade.WARNING, note) for note in report.notes]
    version = f", version {report.version}" if report.version is not None else ""
    return found or [Finding(subject, Grade.OK, f"{report.database}: all indexes online{version}")]


def _queue(queue: EmbedQueue, settings: Settings, *, asked: bool) -> list[Finding]:
    """`asked`: the look at the broker asks the workers themselves who is there."""
    facts = health.read(queue)
    status = facts.status
    # Who is missing is found by the look at the broker, what the schema lacks by that at the schema.
    judged = health.judge_jobs(replace(facts, problems=()), settings, broker=None, missing=())
    causes = [*judged.causes, *health.dead_letters(facts, settings.embed_dead_letter_alert)]
    found = [_of_cause(cause) for cause in causes if cause.code is not Code.SETTINGS_DISAGREE]
    named = {cause.code for cause in causes}
    if status.paused_until is not None and not named & {Code.PAUSED, *RESTS}:
        advice = "it goes on by itself; `neo4j-queue resume` ends the pause now"
        found.append(Finding("queue", Grade.WARNING, f"paused: {status.pause_reason}", advice))
    if (most := status.found_inputs) is not None:
        found.append(_request_size(most, refused=status.inputs_refused))
    if (status.oldest_pending_seconds or 0) > OLD_PENDING_S and Code.STANDSTILL not in named:
        detail = f"{status.pending} jobs are due, the oldest for {status.oldest_pending_seconds:.0f} s"
        found.append(Finding("queue", Grade.WARNING, detail, "more workers, or a larger rate limit"))
    if (behind_ms := queue.control.clock_set_back_ms()) > CLOCK_SKEW_S * 1000:
        detail = f"the clock of the jobs database was set back by {behind_ms / 1000:.0f} s"
        advice = "set the server's clock right: until then pauses, locks and back-offs last longer by as much"
        found.append(Finding("queue", Grade.WARNING, detail, advice))
    if status.failed and Code.DEAD_LETTERS not in named:
        advice = "`neo4j-queue jobs list --status failed` tells why, `neo4j-queue retry` tries again"
        found.append(Finding("queue", Grade.WARNING, f"{status.failed} jobs failed", advice))
    if not found:
        found.append(Finding("queue", Grade.OK, f"{status.unfinished} jobs to do, {status.completed} done"))
    slots = sum(worker.slots for worker in status.workers)
    if slots:
        detail = f"{len(status.workers)} answered lately, {slots} slots"
        return [*found, Finding("workers", Grade.OK, detail)]
    if asked:
        return found
    advice = (
        "`celery -A tasks inspect ping` names those that run: an embed worker is needed, and a control worker and "
        "`celery -A tasks beat` who ask it"
    )
    return [*found, Finding("workers", Grade.BAD, "no embed worker answered lately", advice)]


def _of_cause(cause: Reason) -> Finding:
    """A reason of the health as a finding."""
    grade = Grade.WARNING if cause.state is HealthState.DEGRADED else Grade.BAD
    subject = "jobs database" if cause.code is Code.JOBS_DATABASE_READ_ONLY else "queue"
    return Finding(subject, grade, cause.sentence, ADVICE.get(cause.code, f"`{cause.command}`"))


def _request_size(most: int, *, refused: bool) -> Finding:
    if refused:
        detail = f"it refuses requests of more than {most} texts, so that leases keep to that for a day"
        return Finding("provider", Grade.WARNING, detail, f"set EMBED_BATCH_SIZE={most}")
    detail = f"it did not answer requests of more than {most} texts in time: batches are smaller for a while"
    advice = f"if that stays so, set EMBED_BATCH_SIZE={most}, or a longer EMBED_REQUEST_TIMEOUT_MS"
    return Finding("provider", Grade.WARNING, detail, advice)


def _agreement(queue: EmbedQueue, own: str) -> list[Finding]:
    line = fingerprint.disagreement(queue.census.workers(), own)
    return [] if line is None else [Finding("workers", Grade.WARNING, line)]


def _in_force(jobs: Database, own: str) -> list[Finding]:
    """A finding if the queue works with other settings than these: then no process with these does any work."""
    line = in_force.refusal(in_force.read(jobs), own)
    if line is None:
        return []
    fact, _, advice = line.partition(": ")
    return [Finding("settings", Grade.BAD, fact, advice)]


def _entities(graph: Database, settings: Settings) -> list[Finding]:
    lines = graph_names.strangers(graph, settings)
    label, key = settings.embed_entity_label, settings.embed_entity_key
    count, all_of_them = without_key_of(graph, label, key, deleted=settings.deleted_property())
    if count:
        lines.append(left_out(count, label, key) + ("" if all_of_them else f" (of the first {SAMPLE:,})"))
    lines += graph_names.unusable(graph, settings)
    return [Finding("entities", Grade.WARNING, line) for line in lines]


def _timestamps(graph: Database, settings: Settings) -> list[Finding]:
    return [Finding(OTHERS, Grade.WARNING, line) for line in timestamps.lines(graph, settings)]


def _trigger(graph: Database, jobs: Database, settings: Settings) -> list[Finding]:
    there, counted_on = triggers.look(graph, settings), triggers.is_counted_on(jobs)
    wrong = trigger_lines(there, settings, counted_on=counted_on)
    found = [Finding(OTHERS, Grade.WARNING, detail, advice) for detail, advice in wrong]
    if there.state is not triggers.State.CURRENT or found:
        return found
    if not triggers.is_at_work(graph, triggers.Trigger.of(settings)):
        detail = "the trigger is installed, but not at work yet"
        return [Finding(OTHERS, Grade.WARNING, detail, "it is within apoc.trigger.refresh (a minute)")]
    return [Finding(OTHERS, Grade.OK, there.detail)]


def _leftovers(graph: Database, settings: Settings) -> list[Finding]:
    found = leftovers(GraphSchema.from_settings(settings), schema.indexes(graph))
    return [
        Finding(
            "graph schema", Grade.WARNING, f"{what} is of other settings", f"if no deployment uses it: {drop}"
        )
        for what, drop in found
    ]

"""Why has this entity no fresh vector? One answer out of both databases: scope, text, vector, jobs, the queue.

All that is read is read by an index, or bounded by a number: the answer costs the same whatever the graph and the queue
hold. The judgement is in `causes` and `absent`, as pure as may be.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from neo4j_queue.checks import fingerprint, in_force
from neo4j_queue.database import Database
from neo4j_queue.embedders import profile_of
from neo4j_queue.errors import UnembeddableText
from neo4j_queue.graph import EntityGraph
from neo4j_queue.graph.accepted import checked_name
from neo4j_queue.graph.entities import EntityText
from neo4j_queue.graph.look import NODES, LookedAt, VectorState, look
from neo4j_queue.jobs import JobRequest, Status
from neo4j_queue.pipeline.truncation import LongTexts
from neo4j_queue.queue import EmbedQueue, outlook, standing
from neo4j_queue.queue.listing import Job
from neo4j_queue.queue.standing import Ahead, History
from neo4j_queue.reconcile import causes
from neo4j_queue.reconcile.absent import why_absent
from neo4j_queue.reconcile.causes import Surroundings
from neo4j_queue.reconcile.commands import command
from neo4j_queue.reconcile.discovery import finder_of
from neo4j_queue.reconcile.explanation import Cause, Explanation, JobRecord, Prepared, Reason, Vector
from neo4j_queue.settings import Role, Settings

__all__ = ["Cause", "Explanation", "Reason", "explain", "explain_entity"]


def explain_entity(name: str | int, settings: Settings | None = None) -> Explanation:
    """Says why the entity of this key has no fresh vector, or that it has one; see `Explanation`.

    Opens both databases by the settings (of the environment, when none are given) and closes them again. Raises
    `SettingsError`, and the driver's errors when a database is away.
    """
    settings = settings or Settings.load(Role.CLI)
    with Database(settings.graph_address()) as graph, Database(settings.jobs_address()) as jobs:
        return explain(
            EntityGraph.from_settings(settings, database=graph), EmbedQueue(jobs, settings), settings, name
        )


def explain(graph: EntityGraph, queue: EmbedQueue, settings: Settings, name: str | int) -> Explanation:
    """As `explain_entity`, on what is open already. Nothing is written.

    Raises ValueError for a name that no entity can have (half of a character in it).
    """
    uid = checked_name(name)
    found = look(graph, uid, settings.changed_properties()) if uid else []
    current = [node for node in found if not node.deleted]
    if not current:
        now = queue.census.time()
        absent = tuple(why_absent(graph, uid, found))
        return Explanation(uid, graph.label, graph.key, graph.model, now, False, absent)
    node = next((each for each in current if each.state is not VectorState.FRESH), current[0])
    return _of_node(graph, queue, settings, uid, current, node)


@dataclass(frozen=True, slots=True)
class _Case:
    """One node of the name that is asked about, the jobs of that name, and the queue around them."""

    graph: EntityGraph
    queue: EmbedQueue
    settings: Settings
    name: str
    node: LookedAt
    history: History
    around: Surroundings

    @property
    def job(self) -> Job | None:
        """The job for the text as it is now."""
        return self.history.of(self.graph.model, self.node.version)

    @property
    def earlier(self) -> Job | None:
        """A job for another text, or another model, that has not ended; the one that runs first."""
        found = [job for job in self.history.jobs if job is not self.job and causes.is_unfinished(job)]
        return max(found, key=lambda job: (job["status"] == Status.PROCESSING, job["priority"]), default=None)


def _of_node(
    graph: EntityGraph,
    queue: EmbedQueue,
    settings: Settings,
    name: str,
    current: Sequence[LookedAt],
    node: LookedAt,
) -> Explanation:
    versions = {each.version: graph.model for each in current}
    history = standing.history(queue.database, name, graph.model, list(versions))
    one = _Case(graph, queue, settings, name, node, history, _around(graph, queue, settings))
    job = one.job
    ahead = _ahead(one, job)
    found = _causes(one, ahead)
    well = all(cause.by_itself for cause in found)
    return Explanation(
        name=name,
        label=graph.label,
        key=graph.key,
        model=graph.model,
        now=one.around.now,
        well=well,
        causes=tuple(found),
        nodes=len(current),
        more_nodes=len(current) >= NODES,
        text=_prepared(settings, name, node),
        vector=_vector(node),
        in_outbox=node.pending,
        jobs=tuple(JobRecord.of(each, versions) for each in history.jobs),
        more_jobs=history.more,
        ahead=ahead if job is not None and job["status"] == Status.PENDING else None,
        ready_at=_ready_at(job, ahead, one.around) if well else None,
    )


def _ahead(one: _Case, job: Job | None) -> Ahead:
    return Ahead(0) if job is None else standing.ahead(one.queue.database, job, one.around.now)


def _around(graph: EntityGraph, queue: EmbedQueue, settings: Settings) -> Surroundings:
    status = queue.status()
    seen = outlook.read(queue, status)
    own = fingerprint.fingerprint(settings, graph.database)
    ages = queue.ticks.ages()
    return Surroundings(
        status=status,
        outlook=seen,
        refusal=in_force.refusal(seen.in_force, own),
        entities=in_force.entities_of(seen.in_force or own),
        beat_is_missing=ages.beat_is_missing,
        leased_ms_ago=ages.lease_ms,
        recovery=settings.embed_job_recovery_interval > 0,
    )


def _causes(one: _Case, ahead: Ahead) -> list[Cause]:
    """What keeps the node's vector from being fresh, the decisive cause first."""
    job, around = one.job, one.around
    if one.node.state is VectorState.FRESH:
        return [Cause(Reason.FRESH, "its vector is that of its text", True)]
    if cause := _unembeddable(one):
        return [cause]
    match None if job is None else Status(job["status"]), job:
        case Status.PENDING, dict():
            return causes.of_pending(one.name, job, ahead, around)
        case Status.PROCESSING, dict():
            return causes.of_processing(job, around)
        case Status.FAILED, dict():
            foreign = job.get("made_for") not in (None, around.entities)
            return causes.of_failed(one.name, job, refusal=around.refusal, foreign=foreign)
    if (earlier := one.earlier) is not None:
        return causes.of_earlier(one.name, earlier, _ahead(one, earlier), around)
    return [_not_queued(one)]


def _unembeddable(one: _Case) -> Cause | None:
    """Why there can be no vector of the text as it is."""
    if one.node.blank:
        why = "its text is empty, so there is nothing to embed"
        properties = ", ".join(f"`{each}`" for each in one.graph.recipe.properties)
        return Cause(Reason.EMPTY_TEXT, why, False, None, f"write a text into one of {properties}")
    try:
        _long_texts(one.settings).fitted(_entity_text(one.name, one.node))
    except UnembeddableText as error:
        again = command("repair", one.name)
        advice = f"shorten it, or set EMBED_LONG_TEXTS=truncate and restart the workers; then `{again}`"
        return Cause(Reason.TEXT_TOO_LONG, str(error), False, None, advice)
    refusal = JobRequest(one.name, one.graph.model, one.node.version).refusal()
    return None if refusal is None else Cause(Reason.NO_JOB_POSSIBLE, refusal, False)


def _not_queued(one: _Case) -> Cause:
    """No job stands for the text: does anything find it by itself?"""
    job, node, around = one.job, one.node, one.around
    ended = f" ({causes.ended_before(job)})" if job is not None else ""
    what = f"{_WHAT[node.state]}, and no job is queued for it{ended}"
    helps = command("repair" if node.state is VectorState.DAMAGED else "enqueue", one.name)
    if around.refusal is not None:
        return Cause(Reason.SETTINGS_NOT_IN_FORCE, f"{what}: {around.refusal}", False, command("init"))
    sweep = finder_of(one.queue, one.settings, node)
    if sweep is None:
        looked_for = ",".join(one.settings.discovery())
        why = f"{what}; the sweeps of EMBED_DISCOVERY={looked_for} do not look for such entities"
        return Cause(Reason.NOT_QUEUED, why, False, helps)
    if around.beat_is_missing:
        why = f"{what}; beat, whose sweeps would find it, does not tick (`celery -A tasks beat`)"
        return Cause(Reason.NOT_QUEUED, why, False, helps)
    why = f"{what}: beat's sweep {sweep} finds it, every {_time(sweep.every_ms)}"
    return Cause(Reason.NOT_QUEUED, why, True, helps)


_WHAT = {
    VectorState.MISSING: "it has no vector",
    VectorState.STALE: "its text was changed since its vector was made",
    VectorState.OTHER_MODEL: "its vector is of another model",
    VectorState.OTHER_WIDTH: "its vector has another width than the model's",
    VectorState.DAMAGED: "its vector is damaged (no number in it may be missing, infinite, or all of them zero)",
    VectorState.FRESH: "its vector is fresh",
}


def _time(ms: int) -> str:
    seconds = round(ms / 1000)
    if seconds < 120:
        return f"{seconds} s"
    return f"{round(seconds / 60)} min" if seconds < 7_200 else f"{seconds / 3_600:g} h"


def _ready_at(job: Job | None, ahead: Ahead, around: Surroundings) -> int | None:
    """About when the job will be done; None where that is not known."""
    facts = around.outlook.facts
    if job is None or facts is None or facts.speed is None or ahead.more:
        return None
    if job["status"] == Status.PROCESSING:
        since = job.get("started_at") or around.now
        return int(max(around.now, since + facts.speed.batch_ms))
    if job["status"] != Status.PENDING:
        return None
    start = max(around.now, around.status.paused_until or 0, job["available_at"])
    return facts.done_at(around.status.processing + ahead.jobs + 1, ahead.jobs + 1, start)


def _long_texts(settings: Settings) -> LongTexts:
    return LongTexts(profile_of(settings).max_input_tokens, settings.embed_long_texts)


def _entity_text(name: str, node: LookedAt) -> EntityText:
    return EntityText(name, node.text, node.content_hash, (), fresh=False, deleted=node.deleted)


def _prepared(settings: Settings, name: str, node: LookedAt) -> Prepared:
    try:
        sent = _long_texts(settings).fitted(_entity_text(name, node))
    except UnembeddableText:
        sent = None
    return Prepared(
        text=node.text if sent is None else sent.text,
        characters=len(node.text),
        est_tokens=node.est_tokens,
        hash=node.content_hash,
        version=node.version,
        cut=sent is not None and sent.truncated,
        sent_characters=0 if sent is None or node.blank else sum(map(len, sent.inputs)),
    )


def _vector(node: LookedAt) -> Vector:
    return Vector(node.state, node.model, node.width, node.vector_hash, node.embedded_at, node.truncated)

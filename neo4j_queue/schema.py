"""The schema of both databases: versioned, idempotent, safe to run twice at once.

`migrate_jobs` and `migrate_graph` create what is missing and wait until it is online; `check_jobs` and
`check_graph` only look. Nothing that is there is ever dropped or changed but our own full-text index, when the text is
made of other properties now: an index in the way is reported with what to do about it.
"""

import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import structlog
from neo4j.exceptions import Neo4jError

from neo4j_queue.cypher import quote, statement
from neo4j_queue.database import Database, rows
from neo4j_queue.embedders import describe
from neo4j_queue.graph.keys import left_out, without_key
from neo4j_queue.names import OUTBOX_LABEL
from neo4j_queue.search_indexes import can_make_words, rivals, search_problems
from neo4j_queue.settings import Settings
from neo4j_queue.text import TextRecipe

JOBS_SCHEMA_VERSION = 1

# An index over a million stored vectors builds for half an hour; init does not wait that long, for writing
# works meanwhile and `check_graph` tells how far it is.
ONLINE_WAIT_S = 600.0
POLL_S = 0.1

HASH = "embedding_hash"

# Somebody else's `init` was faster: IF NOT EXISTS is judged before the lock on the schema is taken.
# Where keys are shared, his index has the name of the constraint that we are trying first.
_CREATED_MEANWHILE = frozenset(
    f"Neo.ClientError.Schema.{code}"
    for code in ("EquivalentSchemaRuleAlreadyExists", "IndexWithNameAlreadyExists", "IndexAlreadyExists")
)
_DUPLICATES = ".Schema.ConstraintCreationFailed"

_CREATES = re.compile(r"CREATE (?:VECTOR |FULLTEXT )?(?:INDEX|CONSTRAINT) (\w+)")

log = structlog.get_logger(__name__)

Progress = Callable[[Mapping[str, float]], None]


@dataclass(frozen=True, slots=True)
class Report:
    """What a migration or a check found. `notes` are good to know; with `problems` nothing can work."""

    database: str
    version: int | None = None
    created: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether the product can work on this database."""
        return not self.problems


@dataclass(frozen=True, slots=True)
class Index:
    """One index over nodes, as the server describes it. `percent` is how much of it is built (0 to 100)."""

    name: str
    type: str
    state: str
    labels: list[str]
    properties: list[str]
    config: dict[str, Any] | None
    constraint: str | None
    percent: float
    failure: str

    def covers(self, label: str, *properties: str) -> bool:
        """Whether it is over exactly this label and these properties."""
        return self.labels == [label] and sorted(self.properties) == sorted(properties)


def indexes(database: Database) -> dict[str, Index]:
    """Every index over nodes, by name."""
    return {row["name"]: Index(**row.data()) for row in database.read(statement("schema/indexes"))}


def wait_online(
    database: Database,
    names: Sequence[str],
    *,
    wait_s: float = ONLINE_WAIT_S,
    progress: Progress | None = None,
) -> bool:
    """Waits until these indexes are built; False when they are not within `wait_s` seconds or have failed."""
    deadline = time.monotonic() + wait_s
    while True:
        building = {
            index.name: index.percent
            for index in indexes(database).values()
            if index.name in names and index.state == "POPULATING"
        }
        if not building:
            return all(found.state == "ONLINE" for n, found in indexes(database).items() if n in names)
        if time.monotonic() > deadline:
            return False
        if progress is not None:
            progress(building)
        time.sleep(POLL_S)


# --- Jobs database ---------------------------------------------------------------------------------------


def version(database: Database) -> int | None:
    """The schema version of a jobs database, or None when it was never prepared."""
    found = database.read(statement("schema/version"))
    return found[0]["version"] if found else None


def migrate_jobs(
    database: Database, *, wait_s: float = ONLINE_WAIT_S, progress: Progress | None = None
) -> Report:
    """Brings a jobs database to `JOBS_SCHEMA_VERSION`; on one that has it, changes nothing.

    A database of a newer program is left alone and reported as a problem.
    """
    current = version(database)
    if current is not None and current > JOBS_SCHEMA_VERSION:
        return check_jobs(database)
    there = indexes(database)
    created = [name for query in _jobs_statements() if (name := _run(database, query, there)) is not None]
    if wait_online(database, _names(_jobs_statements()), wait_s=wait_s, progress=progress):
        database.write(statement("schema/set_version"), version=JOBS_SCHEMA_VERSION)
    found = check_jobs(database)
    return Report(found.database, found.version, tuple(created), found.notes, found.problems)


def check_jobs(database: Database) -> Report:
    """Whether this program can work with the jobs database, without changing anything."""
    name = database.address.database
    current = version(database)
    there = indexes(database)
    wanted = _names(_jobs_statements())
    notes, problems = _states(there, wanted)
    if current is None or current < JOBS_SCHEMA_VERSION:
        old = "is not prepared" if current is None else f"has schema version {current}"
        needed = f"version {JOBS_SCHEMA_VERSION} is needed: run neo4j-queue init"
        problems.insert(0, f"the jobs database {name} {old}; {needed}")
    elif current > JOBS_SCHEMA_VERSION:
        newer = f"the jobs database {name} has schema version {current}, made by a newer program"
        problems.insert(0, f"{newer}; this one knows version {JOBS_SCHEMA_VERSION}: upgrade it")
    else:
        missing = [index for index in wanted if index not in there]
        problems += [f"index {index} is missing in {name}: run neo4j-queue init" for index in missing]
    return Report(name, current, notes=tuple(notes), problems=tuple(problems))


def _jobs_statements() -> list[str]:
    """The statements of all versions in their order: a file holds several, with a semicolon between them."""
    prefix = "CYPHER 5\n"
    files = [statement(f"schema/jobs_{number}") for number in range(1, JOBS_SCHEMA_VERSION + 1)]
    return [prefix + part.strip() for text in files for part in text.removeprefix(prefix).split(";")]


def _names(statements: Sequence[str]) -> list[str]:
    return [found[1] for query in statements if (found := _CREATES.search(query))]


def _run(database: Database, query: str, there: Mapping[str, Index]) -> str | None:
    """Runs a statement; the name of the index if this call has created one.

    What is there already is not asked for again: concurrent schema statements on one label deadlock, and each
    deadlock costs a retry of about a second.
    """
    found = _CREATES.search(query)
    if found and found[1] in there:
        return None
    return _create(database, found[1] if found else None, query)


def _create(database: Database, name: str | None, query: str, **parameters: Any) -> str | None:
    try:
        # A uniqueness constraint is there when its index is built.
        database.transaction(lambda tx: rows(tx, query, **parameters), timeout_s=ONLINE_WAIT_S)
    except Neo4jError as error:
        if error.code not in _CREATED_MEANWHILE:
            raise
        return None
    return name


def _states(there: Mapping[str, Index], names: Sequence[str]) -> tuple[list[str], list[str]]:
    """Notes about indexes that are still being built, problems about those that failed."""
    found = [there[name] for name in names if name in there]
    building = [f"index {i.name} is being built: {i.percent:.0f} %" for i in found if i.state == "POPULATING"]
    return building, [f"index {i.name} has failed: {i.failure}" for i in found if i.state == "FAILED"]


# --- Graph -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class GraphSchema:
    """What the graph needs, by the settings."""

    label: str
    key: str
    vector_index: str
    dimensions: int
    similarity: str
    properties: tuple[str, ...]
    text_index: str = field(init=False)
    key_index: str = field(init=False)
    pending_index: str = field(init=False)
    hash_index: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "text_index", text_index_name(self.vector_index))
        object.__setattr__(self, "key_index", f"{self.label}_{self.key}_key")
        object.__setattr__(self, "pending_index", f"{OUTBOX_LABEL}_{self.key}")
        object.__setattr__(self, "hash_index", f"{self.label}_{HASH}")

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the indexes that this library makes."""
        return (self.key_index, self.pending_index, self.hash_index, self.vector_index, self.text_index)

    @classmethod
    def from_settings(cls, settings: Settings) -> Self:
        """Raises `SettingsError` when the width of the model's vectors cannot be known."""
        return cls(
            label=settings.embed_entity_label,
            key=settings.embed_entity_key,
            vector_index=settings.neo4j_vector_index,
            dimensions=describe(settings).dimensions,
            similarity=settings.neo4j_similarity_function,
            properties=TextRecipe.from_settings(settings).properties,
        )


def text_index_name(vector_index: str) -> str:
    """The name of the full-text index that belongs to a vector index."""
    return f"{vector_index}_text"


def migrate_graph(
    database: Database,
    settings: Settings,
    *,
    wait_s: float = ONLINE_WAIT_S,
    progress: Progress | None = None,
) -> Report:
    """Creates the key constraint and the indexes (outbox, content hash, vectors, words) where they are missing.

    Our own full-text index over other properties than the text's is made anew.

    Where several entities share a key, a plain index takes the place of the constraint, with a note. Where an index is
    in the way of one that is needed, nothing is created: the settings may have been meant otherwise.
    """
    schema = GraphSchema.from_settings(settings)
    there = indexes(database)
    if in_the_way := search_problems(schema, _as_made(schema, there)):
        before = check_graph(database, settings)
        return Report(before.database, None, notes=before.notes, problems=tuple(in_the_way))
    created = [
        _create_key(database, schema, there),
        _create_plain(database, there, "pending_key", schema.pending_index, OUTBOX_LABEL, schema.key),
        _create_plain(database, there, "entity_hash", schema.hash_index, schema.label, HASH),
        _create_vectors(database, schema, there),
        _create_words(database, schema, there),
    ]
    wait_online(database, schema.names, wait_s=wait_s, progress=progress)
    found = check_graph(database, settings)
    notes = list(found.notes)
    if schema.text_index in there and schema.text_index in created:
        was = ", ".join(there[schema.text_index].properties)
        notes.append(f"{schema.text_index} was over {was}: made anew over {', '.join(schema.properties)}")
    if count := without_key(database, schema.label, schema.key):
        notes.append(left_out(count, schema.label, schema.key))
    return Report(found.database, None, tuple(name for name in created if name), tuple(notes), found.problems)


def check_graph(database: Database, settings: Settings) -> Report:
    """Whether this program can work with the graph, without changing anything."""
    schema = GraphSchema.from_settings(settings)
    there = indexes(database)
    notes, failed = _states(there, schema.names)
    key_notes, key_problems = _key_findings(database, schema, there)
    problems = [
        *key_problems,
        *_plain_problems(there, OUTBOX_LABEL, schema.key),
        *_plain_problems(there, schema.label, HASH),
        *search_problems(schema, there),
        *failed,
    ]
    return Report(database.address.database, None, notes=(*key_notes, *notes), problems=tuple(problems))


def _as_made(schema: GraphSchema, there: Mapping[str, Index]) -> dict[str, Index]:
    """The indexes as they will be with those for search that can be made."""
    made = dict(there)
    if _can_make_vectors(schema, there):
        made[schema.vector_index] = _planned(schema.vector_index, "VECTOR", schema.label, "embedding")
    if can_make_words(schema, there):
        made[schema.text_index] = _planned(schema.text_index, "FULLTEXT", schema.label, *schema.properties)
    return made


def _planned(name: str, kind: str, label: str, *properties: str) -> Index:
    return Index(name, kind, "ONLINE", [label], list(properties), None, None, 100.0, "")


def unprepared(graph: Database, jobs: Database, settings: Settings) -> list[str]:
    """Why no job may be queued yet: what `init` has not made, without which an entity may get several jobs or nodes.

    Looks at names and versions only. That search cannot work yet is no reason.
    """
    key = _plain_problems(indexes(graph), settings.embed_entity_label, settings.embed_entity_key)
    return [*check_jobs(jobs).problems, *key][:1]


def _range_indexes(there: Mapping[str, Index], label: str, key: str) -> list[Index]:
    return [index for index in there.values() if index.type == "RANGE" and index.covers(label, key)]


def _create_key(database: Database, schema: GraphSchema, there: Mapping[str, Index]) -> str | None:
    if _range_indexes(there, schema.label, schema.key):
        return None
    names = {"name": schema.key_index, "label": schema.label, "key": schema.key}
    try:
        return _create(database, schema.key_index, statement("schema/entity_key", **names))
    except Neo4jError as error:
        if not (error.code or "").endswith(_DUPLICATES):
            raise
        log.warning("entity_keys_not_unique", label=schema.label, key=schema.key)
    return _create(database, schema.key_index, statement("schema/entity_key_index", **names))


def _key_findings(
    database: Database, schema: GraphSchema, there: Mapping[str, Index]
) -> tuple[list[str], list[str]]:
    found = _range_indexes(there, schema.label, schema.key)
    where = f"(:{schema.label} {{{schema.key}}})"
    if not found:
        return [], [f"no index on {where}: run neo4j-queue init"]
    if any(index.constraint for index in found):
        return [], []
    keys = database.read(statement("schema/duplicate_keys", label=schema.label, key=schema.key))[0]["keys"]
    if keys:
        return [f"{keys} keys of {where} belong to several entities: index instead of a constraint"], []
    name = found[0].name
    advice = f"drop index `{name}` and run neo4j-queue init"
    return [f"{where} has no uniqueness constraint, so two writers may create one entity twice: {advice}"], []


def _create_plain(
    database: Database, there: Mapping[str, Index], query: str, name: str, label: str, key: str
) -> str | None:
    if _range_indexes(there, label, key):
        return None
    return _create(database, name, statement(f"schema/{query}", name=name, label=label, key=key))


def _plain_problems(there: Mapping[str, Index], label: str, key: str) -> list[str]:
    if _range_indexes(there, label, key):
        return []
    return [f"no index on (:{label} {{{key}}}): run neo4j-queue init"]


def _can_make_vectors(schema: GraphSchema, there: Mapping[str, Index]) -> bool:
    return schema.vector_index not in there and not rivals(schema, there, "VECTOR", "embedding")


def _create_vectors(database: Database, schema: GraphSchema, there: Mapping[str, Index]) -> str | None:
    if not _can_make_vectors(schema, there):
        return None
    query = statement("schema/entity_vectors", index=schema.vector_index, label=schema.label)
    return _create(
        database, schema.vector_index, query, dimensions=schema.dimensions, similarity=schema.similarity
    )


def _create_words(database: Database, schema: GraphSchema, there: Mapping[str, Index]) -> str | None:
    """Makes the full-text index, in the place of our own one if that is over other properties."""
    index = there.get(schema.text_index)
    if index is not None and index.covers(schema.label, *schema.properties):
        return None
    if not can_make_words(schema, there):
        return None
    if index is not None:
        database.write(statement("schema/drop_index", name=schema.text_index))
    query = statement("schema/entity_words", index=schema.text_index, label=schema.label)
    listed = ", ".join(f"n.{quote(name)}" for name in schema.properties)
    return _create(database, schema.text_index, query.replace("__PROPERTIES__", listed))

"""The schema of both databases: versioned, idempotent, safe to run twice at once.

`migrate_jobs` and `migrate_graph` create what is missing and wait until it is online; `check_jobs` and
`check_graph` only look. Nothing that is there is dropped or changed, except our own full-text index when the text is
made of other properties now and a person says so (`init --yes`). Indexes of other programs are used as they are.
"""

import difflib
from collections.abc import Mapping

import structlog
from neo4j.exceptions import Neo4jError

from neo4j_queue.cypher import statement
from neo4j_queue.database import Database
from neo4j_queue.graph.keys import left_out, mixed_keys, without_key
from neo4j_queue.names import OUTBOX_LABEL
from neo4j_queue.schema import changed
from neo4j_queue.schema.graph_schema import GraphSchema
from neo4j_queue.schema.indexes import (
    ONLINE_WAIT_S,
    Index,
    Progress,
    Report,
    create_index,
    indexes,
    states_of,
    wait_online,
)
from neo4j_queue.schema.jobs import check_jobs
from neo4j_queue.schema.search_indexes import (
    can_make_words,
    other_analyzer,
    rivals,
    search_notes,
    search_problems,
)
from neo4j_queue.settings import Settings

_DUPLICATES = ".Schema.ConstraintCreationFailed"


log = structlog.get_logger(__name__)


def migrate_graph(
    database: Database,
    settings: Settings,
    *,
    wait_s: float = ONLINE_WAIT_S,
    progress: Progress | None = None,
    remake: bool = False,
) -> Report:
    """Creates the key constraint and the indexes (outbox, content hash, vectors, words, timestamps of
    `EMBED_DISCOVERY`) where they are missing.

    `remake`: a full-text index of our name over other properties than the text's is dropped and made anew.

    Where several entities share a key, a plain index takes the place of the constraint, with a note. Where an index is
    in the way of one that is needed, nothing is created: the settings may have been meant otherwise.
    """
    schema = GraphSchema.from_settings(settings)
    there = indexes(database)
    in_the_way = [
        *search_problems(schema, _as_made(schema, there, remake=remake)),
        *_analyzer_problems(database, schema, there, remake=remake),
    ]
    if in_the_way:
        before = check_graph(database, settings)
        return Report(before.database, None, notes=before.notes, problems=tuple(in_the_way))
    created = [
        _create_key(database, schema, there),
        _create_plain(database, there, "pending_key", schema.pending_index, OUTBOX_LABEL, schema.key),
        _create_plain(database, there, "entity_hash", schema.hash_index, schema.label, schema.vector.hash),
        _create_vectors(database, schema, there),
        _create_words(database, schema, there, remake=remake),
        *(changed.create(database, there, schema.label, name) for name in schema.changed),
    ]
    wait_online(database, schema.names, wait_s=wait_s, progress=progress)
    found = check_graph(database, settings)
    notes = list(found.notes)
    if schema.text_index in there and schema.text_index in created:
        notes.append(_made_anew(schema, there[schema.text_index]))
    deleted = settings.deleted_property()
    if count := without_key(database, schema.label, schema.key, deleted=deleted):
        notes.append(left_out(count, schema.label, schema.key))
    return Report(found.database, None, tuple(name for name in created if name), tuple(notes), found.problems)


def check_graph(database: Database, settings: Settings, *, count_keys: bool = True) -> Report:
    """Looks whether this program can work with the graph; changes nothing.

    `count_keys`: where keys are not unique, says how many are shared, which reads every entity; and where they are of
    both kinds, how many of each, as far as that is quickly counted.
    """
    schema = GraphSchema.from_settings(settings)
    there = indexes(database)
    notes, failed = states_of(there, schema.names)
    key_notes, key_problems = _key_findings(database, schema, there, count=count_keys)
    if count_keys:
        key_notes += mixed_keys(database, schema.label, schema.key)
    problems = [
        *key_problems,
        *_plain_problems(there, OUTBOX_LABEL, schema.key),
        *_plain_problems(there, schema.label, schema.vector.hash),
        *(line for name in schema.changed for line in changed.problems(there, schema.label, name)),
        *search_problems(schema, there),
        *failed,
    ]
    return Report(
        database.address.database,
        None,
        notes=(*key_notes, *search_notes(schema, there), *notes),
        problems=tuple(problems),
    )


def _as_made(schema: GraphSchema, there: Mapping[str, Index], *, remake: bool) -> dict[str, Index]:
    """The indexes as they will be with those for search that can be made."""
    made = dict(there)
    if _can_make_vectors(schema, there):
        made[schema.vector_index] = _planned(schema.vector_index, "VECTOR", schema.label, schema.vector.name)
    if can_make_words(schema, there, remake=remake):
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
        return create_index(database, schema.key_index, statement("schema/entity_key", **names))
    except Neo4jError as error:
        if not (error.code or "").endswith(_DUPLICATES):
            raise
        log.warning("entity_keys_not_unique", label=schema.label, key=schema.key)
    return create_index(database, schema.key_index, statement("schema/entity_key_index", **names))


def _key_findings(
    database: Database, schema: GraphSchema, there: Mapping[str, Index], *, count: bool
) -> tuple[list[str], list[str]]:
    found = _range_indexes(there, schema.label, schema.key)
    where = f"(:{schema.label} {{{schema.key}}})"
    if not found:
        return [], [f"no index on {where}: run neo4j-queue init"]
    if not count or any(index.constraint for index in found):
        return [], []
    keys = database.read(statement("schema/duplicate_keys", label=schema.label, key=schema.key))[0]["keys"]
    if keys:
        return [f"{keys} keys of {where} belong to several entities: index instead of a constraint"], []
    name = found[0].name
    twice = f"{where} has no uniqueness constraint, so two writers may create one entity twice"
    if name == schema.key_index:
        return [f"{twice}: drop index `{name}` and run neo4j-queue init"], []
    return [f"{twice}: the server allows none beside the index {name} of another program"], []


def _create_plain(
    database: Database, there: Mapping[str, Index], query: str, name: str, label: str, key: str
) -> str | None:
    if _range_indexes(there, label, key):
        return None
    return create_index(database, name, statement(f"schema/{query}", name=name, label=label, key=key))


def _plain_problems(there: Mapping[str, Index], label: str, key: str) -> list[str]:
    if _range_indexes(there, label, key):
        return []
    return [f"no index on (:{label} {{{key}}}): run neo4j-queue init"]


def _can_make_vectors(schema: GraphSchema, there: Mapping[str, Index]) -> bool:
    return schema.vector_index not in there and not rivals(schema, there, "VECTOR", schema.vector.name)


def _create_vectors(database: Database, schema: GraphSchema, there: Mapping[str, Index]) -> str | None:
    if not _can_make_vectors(schema, there):
        return None
    query = statement(
        "schema/entity_vectors",
        index=schema.vector_index,
        label=schema.label,
        vector=schema.vector.name,
    )
    return create_index(
        database, schema.vector_index, query, dimensions=schema.dimensions, similarity=schema.similarity
    )


def _create_words(
    database: Database, schema: GraphSchema, there: Mapping[str, Index], *, remake: bool
) -> str | None:
    """Makes the full-text index; with `remake` it replaces one of our name that the settings want otherwise."""
    index = there.get(schema.text_index)
    if not _words_wanted(schema, there, remake=remake):
        return None
    if index is not None:
        database.write(statement("schema/drop_index", name=schema.text_index))
    query = statement(
        "schema/entity_words", index=schema.text_index, label=schema.label, properties=schema.properties
    )
    return create_index(database, schema.text_index, query, analyzer=schema.analyzer)


def _words_wanted(schema: GraphSchema, there: Mapping[str, Index], *, remake: bool) -> bool:
    """True if the full-text index is to be made."""
    index = there.get(schema.text_index)
    right = (
        index is not None
        and index.covers(schema.label, *schema.properties)
        and not other_analyzer(schema, index)
    )
    return not right and can_make_words(schema, there, remake=remake)


def _analyzer_problems(
    database: Database, schema: GraphSchema, there: Mapping[str, Index], *, remake: bool
) -> list[str]:
    """The line about an analyzer that the server does not have, where an index is to be made with it."""
    if not _words_wanted(schema, there, remake=remake):
        return []
    names = [row["analyzer"] for row in database.read(statement("schema/analyzers"))]
    if schema.analyzer in names:
        return []
    near = difflib.get_close_matches(schema.analyzer, names, 1)
    meant = f"; did you mean {near[0]}?" if near else ""
    return [
        f"EMBED_FULLTEXT_ANALYZER={schema.analyzer}: the server has no such analyzer{meant} "
        f"(it has {', '.join(names)})"
    ]


def _made_anew(schema: GraphSchema, before: Index) -> str:
    """The note about a full-text index that was dropped and made with other properties, or by another analyzer."""
    if not before.covers(schema.label, *schema.properties):
        over = f"was over {', '.join(before.properties)}: made anew over {', '.join(schema.properties)}"
    else:
        over = f"had the analyzer {before.analyzer}: made anew with {schema.analyzer}"
    return f"{schema.text_index} {over}"

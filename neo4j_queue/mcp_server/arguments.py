"""What the tools take. The shapes of the knowledge-graph tools are those of the reference memory server."""

import json
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StrictInt, StrictStr

from neo4j_queue.errors import ErrorCategory
from neo4j_queue.graph.search_request import SearchMode
from neo4j_queue.jobs import FailureReason

# One transaction holds the locks of so many entities for about a second.
MOST = 1_000
LIMIT = 10


def _list_in_text(value: object) -> object:
    """A list that a client sent as the text of a JSON array, as some do; anything else as it is."""
    return _in_text(value, "[")


def _map_in_text(value: object) -> object:
    """The same of a JSON object."""
    return _in_text(value, "{")


def _in_text(value: object, begin: str) -> object:
    if isinstance(value, str) and value.lstrip().startswith(begin):
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return value
    return value


def _numeric(value: object) -> object:
    """A number that a client sent as text, such as "10"; blank means not given."""
    if isinstance(value, str):
        text = value.strip()
        if not text:
            return None
        return int(text) if text.isascii() and text.isdigit() and len(text) <= 18 else value
    return value


def _upper(value: object) -> object:
    return value.strip().upper() or None if isinstance(value, str) else value


def _lower(value: object) -> object:
    return value.strip().lower() or None if isinstance(value, str) else value


Name = Annotated[
    StrictStr | StrictInt, Field(description="The entity's name: the value of its key property.")
]
Texts = Annotated[list[StrictStr], BeforeValidator(_list_in_text)]
Number = Annotated[StrictInt | None, BeforeValidator(_numeric)]
T = TypeVar("T")
# What one call writes: something, and no more than one transaction may hold.
Entries = Annotated[list[T], BeforeValidator(_list_in_text), Field(min_length=1, max_length=MOST)]


class Arguments(BaseModel):
    """Arguments of a tool: an unknown one is a mistake of the caller, who is told."""

    model_config = ConfigDict(extra="forbid")


class NoArguments(BaseModel):
    """Some clients send an argument of their own where there is none to send."""


class SearchEntities(Arguments):
    """Of `search_entities`."""

    query: Annotated[StrictStr, Field(description="What is looked for, in plain words.")]
    limit: Annotated[Number, Field(ge=1, le=MOST, description="At most this many hits.")] = LIMIT
    mode: Annotated[
        SearchMode | None,
        BeforeValidator(_lower),
        Field(description="By meaning, by words, or both; missing: both, where they are there."),
    ] = None
    min_score: Annotated[float | None, Field(ge=0, le=1, description="The least score of a hit.")] = None
    labels: Annotated[Texts, Field(description="Only entities that carry each of these labels.")] = []
    where: Annotated[
        dict[str, Any] | None,
        BeforeValidator(_map_in_text),
        Field(
            description="Only entities with these values in these properties; null: without such a property."
        ),
    ] = None
    changed_since: Annotated[
        StrictStr | None,
        Field(
            description="Only entities embedded at this time (ISO 8601) or later, or changed and not yet embedded."
        ),
    ] = None
    strict: Annotated[
        bool, Field(description="Fail where a half cannot answer, instead of falling back to the other.")
    ] = False
    lucene: Annotated[bool, Field(description="The query is Lucene syntax, not plain words.")] = False


class ForceGenerateEmbedding(Arguments):
    """Of `force_generate_embedding`."""

    entity_name: Annotated[
        StrictStr | StrictInt | None,
        Field(description="One entity by its name; blank or missing: entities that have no vector."),
    ] = None
    limit: Annotated[
        Any,
        Field(
            description="Without entity_name: at most this many, 1 to 1000; anything else means 10.",
            json_schema_extra={"anyOf": [{"type": "integer"}, {"type": "string"}, {"type": "null"}]},
        ),
    ] = LIMIT


class GetEntitiesWithoutEmbeddings(Arguments):
    """Of `get_entities_without_embeddings`."""

    limit: Annotated[
        Any,
        Field(
            description="At most this many, 1 to 1000; anything else means 10.",
            json_schema_extra={"anyOf": [{"type": "integer"}, {"type": "string"}, {"type": "null"}]},
        ),
    ] = LIMIT


class ExplainEntity(Arguments):
    """Of `explain_entity`."""

    entity_name: Name
    text: Annotated[bool, Field(description="Give the text as it would be sent, too.")] = False


class NewEntity(Arguments):
    """An entity to create."""

    name: Name
    entityType: Annotated[StrictStr | None, Field(description="Its type, such as person.")] = None  # noqa: N815
    observations: Annotated[
        Texts | None, Field(description="What is known of it, one fact in each text.")
    ] = None
    properties: Annotated[
        dict[str, Any], Field(description="Further properties, stored under their names.")
    ] = {}


class CreateEntities(Arguments):
    """Of `create_entities`."""

    entities: Entries[NewEntity]


class AddedObservations(Arguments):
    """Observations to add to one entity."""

    entityName: Name  # noqa: N815
    contents: Annotated[Texts, Field(description="The observations to add.")]


class AddObservations(Arguments):
    """Of `add_observations`."""

    observations: Entries[AddedObservations]


class DeletedObservations(Arguments):
    """Observations to delete from one entity."""

    entityName: Name  # noqa: N815
    observations: Annotated[Texts, Field(description="The observations to delete, word for word.")]


class DeleteObservations(Arguments):
    """Of `delete_observations`."""

    deletions: Entries[DeletedObservations]


class NewRelation(Arguments):
    """A directed relation."""

    # `from` is a word of Python.
    model_config = ConfigDict(extra="forbid", populate_by_name=True)

    source: Annotated[Name, Field(alias="from", description="The entity where the relation starts.")]
    to: Annotated[Name, Field(description="The entity where it ends.")]
    relationType: Annotated[StrictStr, Field(description="Its type, in active voice: works_at.")]  # noqa: N815


class CreateRelations(Arguments):
    """Of `create_relations`."""

    relations: Entries[NewRelation]


class DeleteEntities(Arguments):
    """Of `delete_entities`."""

    entityNames: Entries[Name]  # noqa: N815


class RetryFailed(Arguments):
    """Of `retry_failed`."""

    category: Annotated[
        ErrorCategory | None, BeforeValidator(_upper), Field(description="Only of this error category.")
    ] = None
    reason: Annotated[
        FailureReason | None,
        BeforeValidator(_lower),
        Field(description="Only those that failed for this reason."),
    ] = None
    status: Annotated[Number, Field(ge=100, le=599, description="Only those with this HTTP status.")] = None
    limit: Annotated[Number, Field(ge=1, description="At most this many; missing: all.")] = None

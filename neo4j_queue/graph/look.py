"""What a person asks about one key: the entities that have it, and where else such a name stands.

Everything is read by an index, or from a bounded number of nodes: what it costs does not grow with the graph.
"""

import difflib
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from neo4j_queue.cypher import statement, unquotable
from neo4j_queue.database import Database, Row
from neo4j_queue.embedders.base import is_usable
from neo4j_queue.graph.changes import moment_of
from neo4j_queue.graph.keys import keys_of, name_of
from neo4j_queue.graph.vectors import EntityVectors
from neo4j_queue.text import VERSION_DIGITS, content_hash, estimate_tokens, is_blank
from neo4j_queue.times import epoch_ms

# Nodes of one key that are looked at. Two are a mistake already; a key such as "unknown" may have thousands.
NODES = 20
# Keys with the same beginning among which a similar one is looked for: some milliseconds.
NEAR = 200
# Nodes of a label without an index that are looked at: some ten milliseconds.
SAMPLE = 20_000
# Labels that are looked through for a key that ours does not have.
LABELS = 30


class VectorState(StrEnum):
    """What an entity's vector is worth. Only a `FRESH` one is that of the text now."""

    FRESH = "fresh"
    STALE = "stale"
    MISSING = "missing"
    OTHER_MODEL = "other_model"
    OTHER_WIDTH = "other_width"
    DAMAGED = "damaged"


@dataclass(frozen=True, slots=True)
class LookedAt:
    """One node that has the key, its text as it is now, and the vector that it carries.

    `width`: numbers of the vector, None where there is none or where it is no list. `pending`: it stands in the outbox.
    `changed_at`: epoch ms by each property that was asked for; none for one that holds no time.
    """

    labels: tuple[str, ...]
    deleted: bool
    text: str = field(repr=False)
    state: VectorState
    width: int | None
    model: str | None
    vector_hash: str | None
    embedded_at: int | None
    truncated: bool
    pending: bool
    changed_at: Mapping[str, int] = field(default_factory=dict)

    @property
    def content_hash(self) -> str:
        """SHA-256 of the text."""
        return content_hash(self.text)

    @property
    def version(self) -> str:
        """`version` of the job for this text."""
        return self.content_hash[:VERSION_DIGITS]

    @property
    def est_tokens(self) -> int:
        """The estimated size of the text in model tokens."""
        return estimate_tokens(self.text)

    @property
    def blank(self) -> bool:
        """True if there is nothing to embed."""
        return is_blank(self.text)


def look(
    graph: EntityVectors, name: str, timestamps: Sequence[str] = (), most: int = NODES
) -> list[LookedAt]:
    """The nodes of the graph's label that have this key, at most `most` of them. `timestamps`: properties by which
    other programs say when they changed an entity."""
    found = graph.database.read_packed(
        statement(
            "graph/look",
            label=graph.label,
            key=graph.key,
            **graph.vector.identifiers,
            **graph.deleted.identifiers,
        ),
        leader=True,
        keys=keys_of(name),
        properties=list(graph.recipe.properties),
        timestamps=list(timestamps),
        most=most,
    )
    return [_looked_at(graph, row, timestamps) for row in found]


def _looked_at(graph: EntityVectors, row: Row, timestamps: Sequence[str]) -> LookedAt:
    times = zip(timestamps, map(moment_of, row["times"]), strict=True)
    text = graph.recipe.text_of(row["source"])
    vector = row["vector"]
    return LookedAt(
        labels=tuple(row["labels"]),
        deleted=row["deleted"],
        text=text,
        state=_state(graph, row, content_hash(text)),
        width=len(vector) if isinstance(vector, list) else None,
        model=_text_or_none(row["model"]),
        vector_hash=_text_or_none(row["hash"]),
        embedded_at=epoch_ms(row["embedded_at"]),
        truncated=row["truncated"] is True,
        pending=row["pending"],
        changed_at={name: at for name, at in times if at is not None},
    )


def _text_or_none(value: Any) -> str | None:
    """Another program may have written anything."""
    return value if isinstance(value, str) else None


def _state(graph: EntityVectors, row: Row, digest: str) -> VectorState:
    vector = row["vector"]
    if vector is None:
        return VectorState.MISSING
    if row["model"] != graph.model:
        return VectorState.OTHER_MODEL
    if isinstance(vector, list) and len(vector) != graph.dimensions:
        return VectorState.OTHER_WIDTH
    if not is_usable(vector, graph.dimensions):
        return VectorState.DAMAGED
    return VectorState.FRESH if row["hash"] == digest else VectorState.STALE


# --- Where else such a name stands --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Otherwise:
    """A node of the label that has the name in another property. `uid`: what names it, None where nothing does."""

    property: str
    uid: str | None
    deleted: bool


def labels_with(graph: EntityVectors, name: str, indexed: Iterable[str]) -> list[str]:
    """Other labels that have a node of this key. `indexed`: those whose key has an index; of others the first nodes are
    looked at."""
    with_index = set(indexed)
    known = [row["label"] for row in graph.database.read(statement("graph/labels"))]
    others = [label for label in known if label != graph.label and unquotable(label) is None]
    others.sort(key=lambda label: (label not in with_index, label))
    return [label for label in others[:LABELS] if _has(graph.database, label, graph.key, name, with_index)]


def _has(database: Database, label: str, key: str, name: str, with_index: set[str]) -> bool:
    if label in with_index:
        found = database.read(statement("graph/has_indexed_key", label=label, key=key), keys=keys_of(name))
    else:
        found = database.read(
            statement("graph/has_key", label=label, key=key), keys=keys_of(name), most=SAMPLE
        )
    return bool(found[0]["found"])


def named_otherwise(graph: EntityVectors, name: str) -> Otherwise | None:
    """The first node of the label that has this name in one of the text's properties, or in one that usually names."""
    properties = [
        each for each in dict.fromkeys((*graph.recipe.properties, "name", "title", "id")) if each != graph.key
    ]
    found = graph.database.read(
        statement("graph/named_otherwise", label=graph.label, key=graph.key, **graph.deleted.identifiers),
        keys=keys_of(name),
        properties=properties,
        most=SAMPLE,
    )
    if not found:
        return None
    return Otherwise(found[0]["property"], name_of(found[0]["key"]), found[0]["deleted"])


def near_keys(graph: EntityVectors, name: str) -> list[str]:
    """Keys that are almost this name, the nearest first: other case, blanks around it, composed otherwise, a typing
    error after its first letters."""
    beginnings = _beginnings(name)
    if not beginnings:
        return []
    query = statement("graph/near_keys", label=graph.label, key=graph.key, **graph.deleted.identifiers)
    found = [row["uid"] for row in graph.database.read(query, beginnings=beginnings, most=NEAR)]
    return _nearest(name, [uid for uid in found if isinstance(uid, str) and uid != name])


def _nearest(name: str, keys: Sequence[str]) -> list[str]:
    by_form: dict[str, str] = {}
    for key in keys:
        by_form.setdefault(_plain(key), key)
    return [by_form[form] for form in difflib.get_close_matches(_plain(name), by_form, n=3, cutoff=0.75)]


def _plain(name: str) -> str:
    return unicodedata.normalize("NFKC", name).strip().casefold()


def _beginnings(name: str) -> list[str]:
    """With which texts the key may begin that is meant."""
    stripped = name.strip()
    forms = [stripped, stripped.lower(), stripped.upper(), stripped.title(), stripped.capitalize()]
    forms += [unicodedata.normalize(form, stripped) for form in ("NFC", "NFD")]
    half = max(1, len(stripped) // 2)
    return [each for each in dict.fromkeys((*forms, *(form[:half] for form in forms))) if each]

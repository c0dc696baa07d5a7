"""The texts of dead letters, as the graph has them now: what failed, and whether that is still the text."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from itertools import islice
from typing import Any

from neo4j_queue.graph import EntityGraph
from neo4j_queue.graph.entities import EntityText
from neo4j_queue.text import VERSION_DIGITS

# Texts that are read at once: some megabytes.
PAGE = 500


class TextState(StrEnum):
    """What became of the text of a job."""

    AS_IT_WAS = "as_it_was"
    CHANGED = "changed"
    DELETED = "deleted"
    GONE = "gone"


@dataclass(frozen=True, slots=True)
class DeadText:
    """The text that a job was for. The queue has its hash alone, so the rest is known while the graph has that text.

    `version`: the beginning of its SHA-256; `hash`: the whole. `DELETED`: its entity is hidden (soft-deleted).
    """

    state: TextState
    version: str
    hash: str | None = None
    characters: int | None = None
    est_tokens: int | None = None
    text: str | None = field(default=None, repr=False)

    def as_json(self, *, text: bool) -> dict[str, Any]:
        """For programs; the text itself only where it is asked for."""
        known = asdict(self)
        if not text:
            del known["text"]
        return {**known, "state": str(self.state)}

    def __str__(self) -> str:
        match self.state:
            case TextState.AS_IT_WAS:
                size = f"{self.characters:,} characters, about {self.est_tokens:,} tokens"
                return f"as it was: {size}; SHA-256 {self.hash}"
            case TextState.CHANGED:
                return f"it has changed since: the job was for {self.version}…; a job for the new text is another one"
            case TextState.DELETED:
                return "its entity is soft-deleted now"
            case TextState.GONE:
                return "there is no such entity any more"


def texts_of(graph: EntityGraph, jobs: Sequence[Mapping[str, Any]]) -> dict[str, DeadText]:
    """What became of the texts of some jobs, by job id."""
    found: dict[str, list[EntityText]] = {}
    for text in graph.read_texts(job["entity_uid"] for job in jobs):
        found.setdefault(text.uid, []).append(text)
    return {job["id"]: _became(job["version"], found.get(job["entity_uid"], [])) for job in jobs}


def entities_of(graph: EntityGraph, jobs: Iterable[Mapping[str, Any]]) -> Iterator[list[EntityText]]:
    """The entities of some jobs with their texts, in pages."""
    left = iter(jobs)
    while page := list(islice(left, PAGE)):
        yield graph.read_texts(job["entity_uid"] for job in page)


def _became(version: str, texts: Sequence[EntityText]) -> DeadText:
    """Several entities may share a key: the one that has the text counts."""
    same = [text for text in texts if text.content_hash[:VERSION_DIGITS] == version]
    here = next((text for text in same if not text.deleted), None)
    if here is not None:
        return DeadText(
            TextState.AS_IT_WAS,
            version,
            here.content_hash,
            len(here.text),
            here.est_tokens,
            here.text,
        )
    if not texts:
        return DeadText(TextState.GONE, version)
    return DeadText(TextState.DELETED if all(t.deleted for t in texts) else TextState.CHANGED, version)

"""Which indexes a search can ask, and why it cannot ask one."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from neo4j_queue.errors import Neo4jQueueError, SettingsError, TemporarilyUnavailable
from neo4j_queue.graph.indexes import ONLINE, Index

INIT = "run neo4j-queue init"


@dataclass(frozen=True, slots=True)
class SearchIndexes:
    """The names of the indexes of vectors and words; in place of one that cannot be asked the error that says why."""

    vectors: str | Neo4jQueueError
    words: str | Neo4jQueueError

    @property
    def any(self) -> bool:
        """True if at least one can be asked."""
        return isinstance(self.vectors, str) or isinstance(self.words, str)

    @property
    def both(self) -> bool:
        """True if both can be asked."""
        return isinstance(self.vectors, str) and isinstance(self.words, str)


@dataclass(frozen=True, slots=True)
class WantedIndexes:
    """The indexes by the settings: their names, and what they are over."""

    label: str
    vector: str
    dimensions: int
    vector_index: str
    text_index: str
    properties: tuple[str, ...]

    @property
    def by_name(self) -> SearchIndexes:
        """Both, for a user that may not look which there are."""
        return SearchIndexes(self.vector_index, self.text_index)

    def among(self, there: Iterable[Index]) -> SearchIndexes:
        """Those that can be asked now: the wanted ones, or others over the same."""
        by_name = {index.name: index for index in there}
        return SearchIndexes(self._vectors(by_name), self._words(by_name))

    def _vectors(self, there: Mapping[str, Index]) -> str | Neo4jQueueError:
        over = (i for i in there.values() if i.type == "VECTOR" and i.covers(self.label, self.vector))
        # The server allows one index over the same, so one of another name leaves no choice.
        index = next(over, None)
        if index is None:
            return SettingsError([f"vector index {self.vector_index} is missing: {INIT}"])
        if index.dimensions not in (None, self.dimensions):
            has = f"vector index {index.name} has {index.dimensions} dimensions"
            return SettingsError([f"{has}, the model gives {self.dimensions}"])
        return _if_online(index, "vector")

    def _words(self, there: Mapping[str, Index]) -> str | Neo4jQueueError:
        index = words_index(
            there.values(), name=self.text_index, label=self.label, properties=self.properties
        )
        if index is not None:
            return _if_online(index, "full-text")
        own = there.get(self.text_index)
        if own is not None and own.type == "FULLTEXT" and own.labels == [self.label]:
            over = f"is over {', '.join(own.properties)}, not {', '.join(self.properties)}"
            return SettingsError([f"full-text index {self.text_index} {over}: {INIT} --yes"])
        return SettingsError([f"full-text index {self.text_index} is missing: {INIT}"])


def words_index(there: Iterable[Index], *, name: str, label: str, properties: Iterable[str]) -> Index | None:
    """The full-text index over exactly these properties: the one of that name, else another program's."""
    wanted = tuple(properties)
    over = [index for index in there if index.type == "FULLTEXT" and index.covers(label, *wanted)]
    return min(over, key=lambda index: (index.name != name, index.name), default=None)


def _if_online(index: Index, kind: str) -> str | Neo4jQueueError:
    if index.state == ONLINE:
        return index.name
    if index.state == "POPULATING":
        return TemporarilyUnavailable(f"{kind} index {index.name} is being built: {index.percent:.0f} %")
    said = " ".join(index.failure.split())[:200]
    return SettingsError([f"{kind} index {index.name} has failed: {said}"])

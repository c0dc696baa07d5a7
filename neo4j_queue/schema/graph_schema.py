"""What the graph needs, by the settings: names and shapes of its indexes."""

from dataclasses import dataclass, field
from typing import Self

from neo4j_queue.embedders import describe
from neo4j_queue.names import OUTBOX_LABEL, VECTOR, VectorProperty, text_index_name
from neo4j_queue.schema.changed import index_name
from neo4j_queue.settings import Settings
from neo4j_queue.settings.settings import DEFAULT_ANALYZER
from neo4j_queue.text import TextRecipe


@dataclass(frozen=True, slots=True)
class GraphSchema:
    """What the graph needs, by the settings."""

    label: str
    key: str
    vector_index: str
    dimensions: int
    similarity: str
    properties: tuple[str, ...]
    vector: VectorProperty = VECTOR
    analyzer: str = DEFAULT_ANALYZER
    changed: tuple[str, ...] = ()
    text_index: str = field(init=False)
    key_index: str = field(init=False)
    pending_index: str = field(init=False)
    hash_index: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "text_index", text_index_name(self.vector_index))
        object.__setattr__(self, "key_index", f"{self.label}_{self.key}_key")
        object.__setattr__(self, "pending_index", f"{OUTBOX_LABEL}_{self.key}")
        object.__setattr__(self, "hash_index", f"{self.label}_{self.vector.hash}")

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the indexes that this library makes."""
        others = (self.pending_index, self.hash_index, self.vector_index, self.text_index)
        return (self.key_index, *others, *(index_name(self.label, name) for name in self.changed))

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
            analyzer=settings.embed_fulltext_analyzer,
            changed=settings.changed_properties(),
        )

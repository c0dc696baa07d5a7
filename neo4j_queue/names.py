"""Labels and properties of the graph that are ours: users may not give them to their own data."""

from dataclasses import astuple, dataclass

OUTBOX_LABEL = "EmbedPending"


# The outbox, and what the jobs database is made of: entities with such a label would be taken for something else.
RESERVED_LABELS = frozenset(
    {
        *(OUTBOX_LABEL, "QueueControl"),
        *(
            "EmbedJob",
            "EmbedLease",
            "EmbedWorker",
            "EmbedHealth",
            "EmbedArchive",
            "EmbedSweep",
            "EmbedCompleted",
            "EmbedFailed",
        ),
    }
)


@dataclass(frozen=True, slots=True)
class VectorProperty:
    """Where an entity carries its vector, and what stands beside it.

    `model` and `hash`: the model and the text that the vector was made of, by which it counts as fresh. `at`: when.
    `truncated`: it is the vector of the text's beginning.
    """

    name: str = "embedding"
    model: str = "embedding_model"
    hash: str = "embedding_hash"
    at: str = "embedded_at"
    truncated: str = "embedding_truncated"

    @property
    def properties(self) -> frozenset[str]:
        """The names of all of them."""
        return frozenset(astuple(self))

    @property
    def identifiers(self) -> dict[str, str]:
        """What fills the placeholders of statements (`__VECTOR__`, `__VECTOR_MODEL__`, and so on)."""
        beside = {f"vector_{part}": getattr(self, part) for part in ("model", "hash", "at", "truncated")}
        return {"vector": self.name, **beside}


VECTOR = VectorProperty()
# Set by the soft delete.
DELETED = "validTo"
# Written by the vector write and by the soft delete alone: a caller who sets them would make a stale vector look
# fresh.
RESERVED_PROPERTIES = VECTOR.properties | {DELETED}

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
            "EmbedCounts",
            "EmbedSample",
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

# A property that no node has, for statements about entities that nothing hides.
_NEVER_SET = "_never_deleted"


@dataclass(frozen=True, slots=True)
class DeletedProperty:
    """The property any value of which hides an entity: never embedded, never found. `name` None: nothing hides one."""

    name: str | None = "validTo"

    @property
    def identifiers(self) -> dict[str, str]:
        """What fills the placeholder `__DELETED__` of statements."""
        return {"deleted": self.name or _NEVER_SET}

    @property
    def properties(self) -> frozenset[str]:
        """Its name, if it has one: written by the soft delete alone."""
        return frozenset(() if self.name is None else (self.name,))


DELETED = DeletedProperty()


def text_index_name(vector_index: str) -> str:
    """The name of the full-text index that belongs to a vector index."""
    return f"{vector_index}_text"

"""Labels and properties of the graph that are ours: users may not give them to their own data."""

OUTBOX_LABEL = "EmbedPending"


# The outbox, and what the jobs database is made of: entities with such a label would be taken for something else.
RESERVED_LABELS = frozenset(
    {
        *(OUTBOX_LABEL, "QueueControl"),
        *("EmbedJob", "EmbedLease", "EmbedWorker", "EmbedHealth", "EmbedArchive", "EmbedSweep"),
    }
)


# Written by the vector write (and `validTo` by the soft delete) alone: a caller who sets them would make a
# stale vector look fresh.
RESERVED_PROPERTIES = frozenset(
    {"embedding", "embedding_model", "embedding_hash", "embedded_at", "embedding_truncated", "validTo"}
)

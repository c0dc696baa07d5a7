"""Times of the databases as text."""

from datetime import UTC, datetime


def iso(epoch_ms: int | None) -> str | None:
    """A time of the databases (epoch ms) as ISO 8601 in UTC."""
    if epoch_ms is None:
        return None
    return (
        datetime.fromtimestamp(epoch_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    )

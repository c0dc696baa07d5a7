"""Times of the databases, and as text."""

from datetime import UTC, datetime
from typing import Any

# No date has a name from then on.
YEAR_10000_MS = 253_402_300_800_000


def iso(epoch_ms: int | None) -> str | None:
    """A time of the databases (epoch ms) as ISO 8601 in UTC."""
    if epoch_ms is None:
        return None
    return (
        datetime.fromtimestamp(epoch_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    )


def epoch_ms(value: Any) -> int | None:
    """A property as a time (epoch ms); None for what another program has left there."""
    return value if type(value) is int and 0 <= value < YEAR_10000_MS else None


def duration(seconds: float | None) -> str | None:
    """Seconds as people say it: `45 s`, `12 min`, `3 h 5 min`, `2 d 4 h`."""
    if seconds is None:
        return None
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days} d {hours} h"
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"

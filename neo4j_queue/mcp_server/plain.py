"""Values of the graph as JSON: dates and points as text, and no vector, wherever it stands."""

import math
import re
from collections.abc import Mapping
from typing import Any

from neo4j.spatial import Point

# A list of so many numbers is a vector, ours or another program's: no agent can read it, and it fills its context.
VECTOR_FROM = 32
# The same as text, as some programs store vectors.
VECTOR_TEXT = re.compile(r"\s*\[?\s*-?\d[\d\s.,eE+-]{256,}\]?\s*")


def properties(found: Mapping[str, Any]) -> dict[str, Any]:
    """The properties of an entity, without those that are vectors or bytes."""
    return {name: plain(value) for name, value in found.items() if not is_vector(value)}


def is_vector(value: object) -> bool:
    """True if a value is a vector, or bytes, which may be one."""
    if isinstance(value, bytes | bytearray) or type(value).__name__ == "Vector":
        return True
    if isinstance(value, str):
        return VECTOR_TEXT.fullmatch(value) is not None
    return (
        isinstance(value, list | tuple)
        and len(value) >= VECTOR_FROM
        and all(isinstance(item, int | float) and not isinstance(item, bool) for item in value)
    )


def plain(value: Any) -> Any:
    """A value that JSON can hold."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            # JSON has no such numbers.
            return value if math.isfinite(value) else str(value)
        case Point():
            return {"srid": value.srid, "coordinates": [plain(each) for each in value]}
        case _ if hasattr(value, "iso_format"):
            return value.iso_format()
        case list() | tuple():
            return [plain(item) for item in value]
        case Mapping():
            return {str(name): plain(item) for name, item in value.items() if not is_vector(item)}
        case _:
            return str(value)

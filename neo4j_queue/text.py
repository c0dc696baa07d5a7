"""The text of an entity: what is embedded, and the hash by which a vector knows whether it is still current.

Three recipes: the memento text (default), a list of properties, or a template. The same stored values give
the same bytes, always and everywhere: the hash of the text is what fences a vector write.
"""

import hashlib
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Self

import neo4j.time
from neo4j.spatial import Point

if TYPE_CHECKING:
    from neo4j_queue.settings import Settings

# Collisions matter only among the versions of one entity under one model: 64 bits are ample.
VERSION_DIGITS = 16
# The provider's own size check counts about a quarter of a token per UTF-8 byte.
BYTES_PER_TOKEN = 4

NO_OBSERVATIONS = "  (No observations)"

# `{{` and `}}` are literal braces, `{property}` is the value of that property; a brace alone is a mistake that the
# settings refuse.
PLACEHOLDER = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")

Values = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class TextRecipe:
    """Makes an entity's text out of its source properties."""

    properties: tuple[str, ...]
    """The source properties: the text depends on these and on nothing else."""

    render: Callable[[Values], str] = field(repr=False)

    @classmethod
    def from_settings(cls, settings: "Settings") -> Self:
        """The recipe of `EMBED_TEXT_TEMPLATE`, else of `EMBED_TEXT_PROPERTIES`, else the memento text.

        Raises ValueError when the template or the list names no property.
        """
        if settings.embed_text_template:
            return cls.of_template(settings.embed_text_template)
        if settings.embed_text_properties:
            return cls.of_properties(settings.embed_text_properties)
        return cls.memento(settings.embed_entity_key)

    @classmethod
    def memento(cls, key: str = "name") -> Self:
        """`Name: …`, `Type: …`, `Observations:` and one `- …` line for each observation."""
        return cls((key, "entityType", "observations"), partial(_memento, key))

    @classmethod
    def of_properties(cls, names: str | Iterable[str]) -> Self:
        """The values of these properties (a comma list or several names), one per line; no empty lines."""
        parts = names.split(",") if isinstance(names, str) else names
        properties = tuple(dict.fromkeys(name.strip() for name in parts if name.strip()))
        if not properties:
            raise ValueError("no property is named")
        return cls(properties, partial(_lines, properties))

    @classmethod
    def of_template(cls, template: str) -> Self:
        r"""A template such as `{name}\n{description}`; a missing property is empty, `{{` is a brace.

        Blanks around a name do not count; a name in back-ticks is taken as it is. A list stands for its elements, one
        per line. `\n` and `\t` may be written as such, since the lines of
        an environment file cannot hold them otherwise.
        """
        unescaped = template.replace("\\n", "\n").replace("\\t", "\t")
        names = (property_named(placeholder) for placeholder in PLACEHOLDER.findall(unescaped))
        properties = tuple(dict.fromkeys(name for name in names if name))
        if not properties:
            raise ValueError("the template names no property: write it as {name}")
        return cls(properties, partial(_fill, unescaped))

    def text(self, values: Values) -> str:
        """The text for these property values (as the driver reads them); "" when no source says anything."""
        if all(not "".join(value_lines(values.get(name))).strip() for name in self.properties):
            return ""
        # A lone surrogate (possible in a JSON string) cannot be sent to any provider, nor hashed as UTF-8.
        return self.render(values).encode("utf-8", "replace").decode("utf-8")

    def text_of(self, source: Sequence[Any]) -> str:
        """The text for values given in the order of `properties`."""
        return self.text(dict(zip(self.properties, source, strict=True)))


def property_named(placeholder: str) -> str:
    """The property that stands between the braces of a template."""
    name = placeholder.strip()
    return name[1:-1] if len(name) > 2 and name[0] == name[-1] == "`" else name


def is_blank(text: str) -> bool:
    """True if there is nothing to embed: such a text is never sent to a provider."""
    return not text.strip()


def content_hash(text: str) -> str:
    """SHA-256 of the text, 64 hex digits: `embedding_hash` on an entity."""
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def content_version(text: str) -> str:
    """The first 16 digits of the content hash: `version` of a job."""
    return content_hash(text)[:VERSION_DIGITS]


def estimate_tokens(text: str) -> int:
    """The estimated size in model tokens: UTF-8 bytes divided by four, rounded up."""
    return -(-len(text.encode("utf-8")) // BYTES_PER_TOKEN)


def observations_of(value: Any) -> list[str]:
    """The observations behind a native list, a JSON array in a string, one plain string, or nothing."""
    if isinstance(value, str):
        parsed = _json_array(value)
        if parsed is None:
            return [value] if value.strip() else []
        return [_scalar(item) for item in parsed if item is not None]
    return value_lines(value)


def value_lines(value: Any) -> list[str]:
    """A property value as lines: a list has one for each element, a missing or unreadable value has none."""
    if type(value) is str:
        return [value]
    # Points and durations are tuples to Python, but one value to the graph.
    several = isinstance(value, list | tuple) and not isinstance(value, Point | neo4j.time.Duration)
    return [_scalar(item) for item in (value if several else [value]) if _readable(item)]


def _readable(value: Any) -> bool:
    """Is there a value, and can the driver read it?

    What it cannot (a date after the year 9999, an unknown time zone) it hands over as an object that holds the error.
    That has no text: it would be another one at each reading.
    """
    return value is not None and not isinstance(getattr(value, "error", None), Exception)


def _scalar(value: Any) -> str:
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case float():
            if math.isnan(value):
                return "NaN"
            return repr(value) if math.isfinite(value) else ("Infinity" if value > 0 else "-Infinity")
        case neo4j.time.Date() | neo4j.time.Time() | neo4j.time.DateTime() | neo4j.time.Duration():
            return value.iso_format()
        case bytes() | bytearray():
            return value.hex()
        case Point():
            return f"POINT({' '.join(_scalar(float(part)) for part in value)})"
        case dict() | list():
            return json.dumps(value, ensure_ascii=False)
        case _:
            return str(value)


def _json_array(value: str) -> list[Any] | None:
    if not value.lstrip().startswith("["):
        return None
    try:
        parsed = json.loads(value)
    except (ValueError, RecursionError):  # a sentence that starts with a bracket, or nested beyond reason
        return None
    return parsed if isinstance(parsed, list) else None


def _memento(key: str, values: Values) -> str:
    name = "\n".join(value_lines(values.get(key)))
    kind = "\n".join(value_lines(values.get("entityType")))
    observations = [f"- {line}" for line in observations_of(values.get("observations"))]
    return "\n".join(
        [f"Name: {name}", f"Type: {kind}", "Observations:", *(observations or [NO_OBSERVATIONS])]
    )


def _lines(properties: Sequence[str], values: Values) -> str:
    return "\n".join(line for name in properties for line in value_lines(values.get(name)) if line.strip())


def _fill(template: str, values: Values) -> str:
    def value_of(match: re.Match[str]) -> str:
        if match[1] is None:
            return match[0][0]
        return "\n".join(value_lines(values.get(property_named(match[1]))))

    return PLACEHOLDER.sub(value_of, template)

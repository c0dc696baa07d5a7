"""Templates, and how values look in them. Everything is escaped: names, errors and reasons are data."""

import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any
from urllib.parse import urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape
from starlette.responses import HTMLResponse, Response

from neo4j_queue.times import duration, iso
from neo4j_queue.wellformed import visible

# What is not seen, and a browser obeys: marks that turn the direction of what follows, and letters without width.
_UNSEEN = re.compile("[\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]")
# A key or a message may be as long as a book; the beginning names it.
SHOWN_CHARS = 400
# A reason with the advice at its end.
SENTENCE_CHARS = 1_000
# Of a rate below, the digit behind the point is worth reading.
EXACT_BELOW = 10
_TYPED = re.compile("`([^`]+)`")

# Scripts, styles and forms of this server alone, nothing inline, and in no frame. The referrer is kept from others, but
# not from this server: without it browsers hide the origin of a form too.
HEADERS = {
    "content-security-policy": (
        "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "x-frame-options": "DENY",
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "cache-control": "no-store",
}
STATIC = {"page.css": "text/css", "page.js": "text/javascript", "icon.svg": "image/svg+xml"}


def page(template: str, values: Mapping[str, Any], status: int = 200) -> Response:
    """The page of a template."""
    return HTMLResponse(_templates().get_template(template).render(values), status, HEADERS)


def static(name: str) -> Response | None:
    """A file that pages refer to; None if there is none."""
    kind = STATIC.get(name)
    if kind is None:
        return None
    content = files(__package__).joinpath("static", name).read_bytes()
    # Asked for again when it is older than a minute: a new version must not come with the style of the old one.
    return Response(content, 200, {**HEADERS, "cache-control": "max-age=60"}, media_type=kind)


def data(value: object, most: int = SHOWN_CHARS) -> str:
    """Text that came from elsewhere, as one line: what is not seen is written out (`\\u202e`), the rest cut off."""
    text = "" if value is None else str(value)
    cut = text if len(text) <= most else f"{text[:most]} …"
    return _UNSEEN.sub(lambda found: f"\\u{ord(found[0]):04x}", visible(cut))


def sentence(text: object) -> Markup:
    """A sentence of ours, which may quote data: what stands between back-ticks looks like what one types."""
    return Markup(_TYPED.sub(r"<code>\1</code>", str(escape(data(text, SENTENCE_CHARS)))))


def number(value: float | None) -> str:
    """A number with separators; a dash for what is not known."""
    if value is None:
        return "–"
    return f"{value:,.1f}" if isinstance(value, float) and value < EXACT_BELOW else f"{value:,.0f}"


def when(epoch_ms: int | None) -> str:
    """A time to the second, for people; in UTC, as the command line tells it."""
    told = iso(epoch_ms)
    return "–" if told is None else f"{told[:10]} {told[11:19]} UTC"


def ago(epoch_ms: int | None, now: int) -> str:
    """How long ago, or in how long."""
    if epoch_ms is None:
        return "never"
    passed = duration(abs(now - epoch_ms) / 1000)
    return f"{passed} ago" if epoch_ms <= now else f"in {passed}"


def time_tag(epoch_ms: int | None, now: int) -> Markup:
    """A time as an element: how long ago, and exactly when one points at it."""
    if epoch_ms is None:
        return Markup("never")
    return Markup('<time datetime="{}" title="{}">{}</time>').format(
        iso(epoch_ms), when(epoch_ms), ago(epoch_ms, now)
    )


def query(**values: object) -> str:
    """The end of an address: what has a value."""
    return urlencode({name: value for name, value in values.items() if value not in (None, "")})


@cache
def _templates() -> Environment:
    made = Environment(
        loader=PackageLoader(__package__ or "", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        lstrip_blocks=True,
    )
    made.filters.update(data=data, sentence=sentence, number=number, when=when, duration=duration)
    made.globals.update(time_tag=time_tag, query=query)
    return made

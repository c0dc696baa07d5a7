"""How the text of one setting becomes a value, and what is said when it does not.

Each function raises `ValueError` whose message is the second half of a line such as
`EMBED_CACHE_MB='lots': must be a whole number from 0 to 4096`.

pydantic's own types would do less: its `bool` takes "t" and 1.0 but not " true ", its `Literal` refuses "Cosine", its
addresses come back rewritten ("redis://h" as "redis://h:6379/0") and may hold a password, and their messages ("Input
should be a valid boolean, unable to interpret input") do not say what to write instead.
"""

import json
import re
import unicodedata
from collections.abc import Callable, Collection, Sequence
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

from pydantic import ValidationInfo
from pydantic_core import PydanticUseDefault

from neo4j_queue.cypher import unquotable
from neo4j_queue.text import PLACEHOLDER, property_named
from neo4j_queue.wellformed import is_well_formed

DATABASE_SCHEMES = ("bolt", "bolt+s", "bolt+ssc", "neo4j", "neo4j+s", "neo4j+ssc")
BROKER_SCHEMES = ("redis", "rediss")
WEB_SCHEMES = ("http", "https")
# ASCII digits only, and few enough for a 64-bit integer: `int()` alone takes "1_000" and digits of any kind.
WHOLE = re.compile(r"[0-9]{1,18}")
DECIMAL = re.compile(r"[0-9]{1,12}(\.[0-9]{1,12})?")
TRUE_WORDS = ("true", "1", "yes", "on")
FALSE_WORDS = ("false", "0", "no", "off")
# Indexes are named after label and key together, and that must be a name too.
NAME_MAX = 250
# What Python would take for a conversion or a format rule. `rdfs:label` is a name: no rule is a word.
FORMAT = re.compile(r"![a-zA-Z]$|:(?![^\W\d]\w+$)")
# Up to the last `@` before a blank: a password may hold `@` and `/` that should have been encoded.
PASSWORD_IN_URL = re.compile(r"(?<=://)\S*@")
# Longer ones are no prefix but a text; instructions for models have one or two sentences.
PREFIX_CHARS = 500
# 64 bits of a random token in hex: more than can be tried over a network.
TOKEN_CHARS = 16
# Fields that a request has anyway, and where they come from.
REQUEST_FIELDS = {
    "model": "set OPENAI_EMBEDDING_MODEL",
    "input": "it holds the texts",
    "encoding_format": "set EMBEDDING_ENCODING_FORMAT",
    "dimensions": "set OPENAI_EMBEDDING_DIMENSIONS",
}
# In the value of one setting everything up to the last `@` is a password, blanks too.
PASSWORD_IN_VALUE = re.compile(r"://.*@", re.DOTALL)
# A longer value is cut: a template of a page would hide the other lines.
SHOWN_CHARS = 80
# What stands before the property in a word of `EMBED_DISCOVERY`.
CHANGED = "changed:"
# What `ssl_cert_reqs` may ask of a certificate; CERT_REQUIRED and so on are read as well.
CERTIFICATES = ("required", "optional", "none")


def whole(minimum: int, maximum: int) -> Callable[[object], object]:
    """A reader of whole numbers within bounds. `None` passes: it is the default of an optional number."""

    def read(value: object) -> object:
        number = int(text) if (text := _matching(WHOLE, value)) else value
        if number is None:
            return None
        if isinstance(number, bool) or not isinstance(number, int) or not minimum <= number <= maximum:
            raise ValueError(f"must be a whole number from {minimum} to {maximum}")
        return number

    return read


def whole_or_unlimited(minimum: int, maximum: int) -> Callable[[object], object]:
    """As `whole`; the word `unlimited` becomes `None`."""
    return _whole_or("unlimited", minimum, maximum)


def whole_or_auto(minimum: int, maximum: int) -> Callable[[object], object]:
    """As `whole`; the word `auto` becomes `None`."""
    return _whole_or("auto", minimum, maximum)


def _whole_or(word: str, minimum: int, maximum: int) -> Callable[[object], object]:
    read_whole = whole(minimum, maximum)

    def read(value: object) -> object:
        if isinstance(value, str) and value.strip().lower() == word:
            return None
        try:
            return read_whole(value)
        except ValueError as error:
            raise ValueError(f"{error}, or `{word}`") from None

    return read


def decimal(minimum: float, maximum: float) -> Callable[[object], object]:
    """A reader of plain decimal numbers within bounds ("1e3" and "nan" are refused). `None` passes, as in `whole`."""

    def read(value: object) -> object:
        if value is None:
            return None
        number = (
            float(value.strip()) if isinstance(value, str) and DECIMAL.fullmatch(value.strip()) else value
        )
        if (
            isinstance(number, bool)
            or not isinstance(number, int | float)
            or not minimum <= number <= maximum
        ):
            raise ValueError(f"must be a number from {minimum} to {maximum}")
        return float(number)

    return read


def flag(value: object) -> object:
    """true or false, in the usual spellings."""
    if isinstance(value, bool):
        return value
    word = value.strip().lower() if isinstance(value, str) else ""
    if word in TRUE_WORDS:
        return True
    if word in FALSE_WORDS:
        return False
    raise ValueError("must be true or false")


def none_if_blank(value: object) -> object:
    """Blank means not set."""
    return None if isinstance(value, str) and not value.strip() else value


def header_value(value: object) -> object:
    """What goes into an HTTP header, without the blanks and line ends around it that files of secrets have."""
    if not isinstance(value, str):
        return value
    text = value.strip()
    if not all("!" <= character <= "~" for character in text):
        raise ValueError("must be ASCII characters without blanks and line ends among them")
    return text or None


def bearer_token(value: object) -> object:
    """A token that programs show in an HTTP header, too long to be guessed."""
    text = header_value(value)
    if isinstance(text, str) and len(text) < TOKEN_CHARS:
        raise ValueError(
            f"must have at least {TOKEN_CHARS} characters, such as those of `openssl rand -hex 32`"
        )
    return text


def one_of(*words: str) -> Callable[[str], str]:
    """A reader of one word of a few, in any case."""
    by_folded = {word.lower(): word for word in words}

    def read(value: str) -> str:
        word = by_folded.get(value.strip().lower())
        if word is None:
            raise ValueError(f"must be one of {', '.join(words)}")
        return word

    return read


def identifier(value: str) -> str:
    """A name that is not blank and holds no control character."""
    name = value.strip()
    if not name or any(unicodedata.category(character) == "Cc" for character in name):
        raise ValueError("must be a name, not blank, without control characters")
    return name


def prefix(value: object) -> object:
    r"""A text that stands before another one, such as `query: `; `\n` and `\t` typed as two characters are meant.

    Its blanks count; nothing but blanks means not set.
    """
    if not isinstance(value, str) or not value.strip():
        return None
    if len(value) > PREFIX_CHARS:
        raise ValueError(f"must have at most {PREFIX_CHARS} characters")
    return value.replace("\\n", "\n").replace("\\t", "\t")


def request_fields(value: object) -> object:
    """Further fields of a request, as a JSON object such as `{"truncate": "END"}`; blank means not set."""
    if value is None or (isinstance(value, str) and not value.strip()):
        return None
    try:
        found = json.loads(value) if isinstance(value, str) else value
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise ValueError('must be a JSON object such as {"truncate": "END"}')
    for name in found:
        if name in REQUEST_FIELDS:
            raise ValueError(f"must not hold `{name}`: {REQUEST_FIELDS[name]}")
    return found


def graph_name(*reserved: str) -> Callable[[str], str]:
    """A reader of a label, a property or an index of the graph; `reserved` are names that this library uses itself."""

    def read(value: str) -> str:
        name = _quotable(identifier(value))
        if name in reserved:
            raise ValueError("is a name that this library uses itself; choose one of your own")
        return name

    return read


def optional_name(*reserved: str) -> Callable[[object], object]:
    """As `graph_name`; blank, or the word `none`, means that there is none."""
    read_name = graph_name(*reserved)

    def read(value: object) -> object:
        if value is None or (isinstance(value, str) and value.strip().lower() in ("", "none")):
            return None
        if not isinstance(value, str):
            raise ValueError("must be a name, or `none`")
        return read_name(value)

    return read


def unset_if_empty(*, except_for: Sequence[str]) -> Callable[[object, ValidationInfo], object]:
    """Nothing behind the equals sign means the default, as people leave `OPENAI_EMBEDDING_DIMENSIONS=` in `.env`;
    `except_for` settings where it has a meaning of its own."""

    def read(value: object, info: ValidationInfo) -> object:
        if value == "" and info.field_name not in except_for:
            raise PydanticUseDefault
        return value

    return read


def utf8(value: object) -> object:
    """Refuses bytes of the environment that are no text."""
    if isinstance(value, str) and not is_well_formed(value):
        raise ValueError("must be text in UTF-8")
    return value


def database_uri(value: str) -> str:
    """The address of a Neo4j server, without credentials: those have variables of their own."""
    uri = value.strip()
    example = f"must be SCHEME://HOST:PORT with scheme {', '.join(DATABASE_SCHEMES)}"
    if not _is_address(uri, DATABASE_SCHEMES):
        raise ValueError(example)
    if "@" in urlsplit(uri).netloc:
        raise ValueError(f"{example}; user and password go into their own variables")
    return uri


def redis_uri(value: str) -> str:
    """The address of the dispatch broker; with TLS (`rediss`), its certificate is verified unless it says otherwise."""
    uri = value.strip()
    rest = uri.partition("://")[2]
    # A `/`, `?` or `#` of a password that is not encoded ends the part in which passwords are looked for.
    cut_short = "@" in re.split(r"[/?#]", rest, maxsplit=1)[-1] if re.search(r"[/?#]", rest) else False
    if cut_short or not _is_address(uri, BROKER_SCHEMES):
        encoded = ", ".join(f"{sign} as {quote(sign, safe='')}" for sign in "/@:#?%")
        raise ValueError(
            "must be redis://HOST:PORT/NUMBER or rediss://HOST:PORT/NUMBER, with user and password as USER:PASSWORD@ "
            f"before the host; in these write {encoded}, and a space as %20"
        )
    return _verified(uri) if uri.startswith("rediss") else uri


def _verified(uri: str) -> str:
    parts = urlsplit(uri)
    query = dict(parse_qsl(parts.query))
    word = query.get("ssl_cert_reqs", "required").lower().removeprefix("cert_")
    if word not in CERTIFICATES:
        raise ValueError(f"must have ssl_cert_reqs={'|'.join(CERTIFICATES)}, or none of it (required)")
    return urlunsplit(parts._replace(query=urlencode({**query, "ssl_cert_reqs": word}, safe="/")))


def web_address(value: str | None) -> str | None:
    """An http or https base address."""
    if value is not None and not _is_address(value.strip(), WEB_SCHEMES):
        raise ValueError("must be an address such as https://api.example.com/v1")
    return None if value is None else value.strip()


def comma_list(value: object) -> object:
    """`a, b` as a tuple without repeats; blank means not set."""
    if value is None or (isinstance(value, str) and not value.strip()):
        return None
    items = value.split(",") if isinstance(value, str) else value
    if not isinstance(items, Sequence) or not all(isinstance(item, str) and item.strip() for item in items):
        raise ValueError("must be property names with commas between them, none of them blank")
    return tuple(dict.fromkeys(_quotable(identifier(item)) for item in items))


def discovery(*scopes: str, reserved: Collection[str] = ()) -> Callable[[object], object]:
    """A reader of the sweeps that beat runs: words with commas between them, each once.

    Beside the words of `scopes` there is `changed:PROPERTY`, for a property that is none of the `reserved` ones.
    """
    allowed = f"must be words with commas between them, of {', '.join(scopes)}, {CHANGED}PROPERTY"

    def read(value: object) -> object:
        words = value.split(",") if isinstance(value, str) else value
        if not isinstance(words, Sequence) or not all(isinstance(word, str) for word in words):
            raise ValueError(allowed)
        return tuple(dict.fromkeys(read_one(word.strip()) for word in words))

    def read_one(word: str) -> str:
        if word.lower() in scopes:
            return word.lower()
        if word[: len(CHANGED)].lower() != CHANGED:
            raise ValueError(allowed)
        # Properties have capitals.
        try:
            return CHANGED + graph_name(*reserved)(word[len(CHANGED) :])
        except ValueError as error:
            raise ValueError(f"the property of {CHANGED}PROPERTY {error}") from None

    return read


def intervals(minimum_ms: int, maximum_ms: int) -> Callable[[object], object]:
    """A reader of whole numbers of milliseconds with commas between them; `None` passes."""
    read_one = whole(minimum_ms, maximum_ms)

    def read(value: object) -> object:
        if value is None:
            return None
        parts = value.split(",") if isinstance(value, str) else value
        if not isinstance(parts, Sequence):
            raise ValueError(
                f"must be whole numbers from {minimum_ms} to {maximum_ms} with commas between them"
            )
        return tuple(read_one(part) for part in parts)

    return read


def template(value: str | None) -> str | None:
    r"""A text template such as `{name}\n{description}`; `\n` and `\t` typed as two characters are meant.

    A placeholder is a property name and nothing else: no conversions, no format rules; `{{` is a plain brace. What
    looks like one of these may be written between back-ticks.
    """
    if value is None:
        return None
    text = value.replace("\\n", "\n").replace("\\t", "\t")
    placeholders = list(PLACEHOLDER.finditer(text))
    if any(match[0] in ("{", "}") for match in placeholders):
        raise ValueError("must have its braces in pairs, {{ or }} for a plain brace, and none within others")
    written = [match[1] for match in placeholders if match[1] is not None]
    if not written:
        raise ValueError("must name at least one property, such as {name}")
    for each in written:
        name = property_named(each)
        if not name.strip() or (name == each.strip() and FORMAT.search(name)):
            rule = "must hold property names only in its braces, odd ones between back-ticks"
            raise ValueError(f"{rule}; wrong: {{{each}}}")
        _quotable(name)
    return text


def without_password(text: str) -> str:
    """Text with the credentials of every URL in it replaced by `***`."""
    return PASSWORD_IN_URL.sub("***@", text) if "@" in text else text


def shown(value: object, *, address: bool = False) -> str:
    """A value of a setting as a line for people shows it, without credentials; `address`: it should be one."""
    text = without_credentials(str(value)) if address else PASSWORD_IN_VALUE.sub("://***@", str(value))
    return f"={text!r}" if len(text) <= SHOWN_CHARS else f"={text[:SHOWN_CHARS]!r}..."


def without_credentials(address: str) -> str:
    """The value of a setting that is an address, without anything before its last @: also where it is written wrong,
    with blanks for instance."""
    before, at, host = address.rpartition("@")
    scheme, apart, _ = before.partition("://")
    # Anything else before the slashes may be part of the password.
    shown = f"{scheme}{apart}" if scheme in (*DATABASE_SCHEMES, *BROKER_SCHEMES, *WEB_SCHEMES) else ""
    return f"{shown}***@{host}" if at else address


def _quotable(name: str) -> str:
    """A name that stands between back-ticks in every statement, also in those that people copy from advice."""
    if reason := unquotable(name):
        raise ValueError(f"must be {reason}")
    if len(name) > NAME_MAX:
        raise ValueError(f"must be a name of at most {NAME_MAX} characters")
    if "`" in name:
        raise ValueError("must be a name without a back-tick")
    return name


def _matching(pattern: re.Pattern[str], value: object) -> str | None:
    """The text of a setting without outer blanks, if all of it matches."""
    text = value.strip() if isinstance(value, str) else ""
    return text if pattern.fullmatch(text) else None


def _is_address(uri: str, schemes: Sequence[str]) -> bool:
    try:
        parts = urlsplit(uri)
        _ = parts.port  # raises ValueError when it is no number
    except ValueError:
        return False
    return parts.scheme in schemes and bool(parts.hostname) and not any(c.isspace() for c in uri)

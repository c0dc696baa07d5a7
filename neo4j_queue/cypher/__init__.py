"""Every Cypher statement of the product: one per file, named after the method that runs it.

A file starts with a header of `//` lines (parameters, rows, lock order). `packed` instead of `rows` means that the rows
come in one record, see `database.packed`. Labels, property keys and index names cannot be Cypher parameters, so a
statement that needs the user's own names holds a placeholder such as `__LABEL__`, which `statement` replaces by the
quoted identifier. Names that are data (types of relations) are parameters: `-[:$(row.type)]->`.
"""

import re
from functools import lru_cache
from importlib.resources import files

# The server takes names of any length. A longer one is a file pasted into a setting, and every log line would carry it.
NAME_MAX = 1_000
# Statements of the product are about a hundred; a process that serves several graphs needs some of them for each.
STATEMENTS_KEPT = 1_024

PLAIN = "CYPHER 5\n"
# Enterprise's default runtime, pipelined, reads ahead: it may judge a property by its value from before the wait for
# the lock (ShedLock#2099). Slotted takes one row after the other; on Community it is the
# default.
SLOTTED = "CYPHER 5 runtime=slotted\n"

_LOCKS = re.compile(r"^// locks: +(\w+)", re.MULTILINE)
_PLACEHOLDER = re.compile(r"__([A-Z]+(?:_[A-Z]+)*)__")
# C0, delete and C1: a name with one of them cannot be told from another name by a person, and nul is refused by the
# server.
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
# Half of a surrogate pair: the driver cannot send it.
_HALF = re.compile("[\ud800-\udfff]")


def unquotable(identifier: str) -> str | None:
    r"""Why a name cannot stand between back-ticks, as the end of a sentence that starts with "must be"; None if it can.

    The server replaces `\uXXXX` in the whole query text before it looks for quotes, so `\u0060` in a name would end it.
    It leaves an even number of backslashes alone, but a name may follow a backslash: none passes.
    """
    if not identifier.strip():
        return "a name, not blank"
    if len(identifier) > NAME_MAX:
        return f"a name of at most {NAME_MAX:,} characters"
    if _CONTROL.search(identifier):
        return "a name without control characters"
    if "\\u" in identifier:
        return "a name without `\\u`, which Neo4j reads as an escaped character"
    if _HALF.search(identifier):
        return "a name of whole characters"
    return None


def quote(identifier: str) -> str:
    """An identifier in back-ticks, with back-ticks inside doubled (the Cypher rule for escaped names).

    Raises ValueError for a name that the quotes cannot hold (see `unquotable`).
    """
    if reason := unquotable(identifier):
        raise ValueError(f"{identifier[:80]!r} must be {reason}")
    return "`" + identifier.replace("`", "``") + "`"


@lru_cache(STATEMENTS_KEPT)
def statement(name: str, /, **identifiers: str | tuple[str, ...]) -> str:
    """The statement stored as `name` (such as `jobs/start`), without its header.

    `identifiers` fill the placeholders: `label="Book"` replaces `__LABEL__` by `` `Book` ``; of a tuple each name
    becomes a property of `n`. All are filled in one pass, so that a name which looks like a placeholder stays a name.
    Every statement gets the `CYPHER 5` prefix, since newer servers may default to a later language version. One that
    takes locks, by its header, gets `SLOTTED` instead.
    Raises ValueError for a name that cannot be quoted, KeyError for a placeholder without a name.
    """
    text = files(__package__).joinpath(f"{name}.cypher").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("//")]
    body = "\n".join(line for line in lines if line.strip())
    prefix = SLOTTED if _takes_locks(text) else PLAIN
    return prefix + _PLACEHOLDER.sub(lambda found: _quoted(identifiers[found[1].lower()]), body)


def planned_anew(query: str) -> str:
    """The same statement, for which the server makes a new plan: by the sizes that it knows now."""
    return query.replace("\n", " replan=force\n", 1)


def _takes_locks(text: str) -> bool:
    """True if the header names locks of nodes: `none …` and `schema` are no such."""
    named = _LOCKS.search(text)
    return named is not None and named[1] not in ("none", "schema")


def _quoted(names: str | tuple[str, ...]) -> str:
    return quote(names) if isinstance(names, str) else ", ".join(f"n.{quote(name)}" for name in names)

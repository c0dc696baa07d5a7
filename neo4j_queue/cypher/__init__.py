"""Every Cypher statement of the product: one per file, named after the method that runs it.

A file starts with a header of `//` lines (parameters, rows, lock order). `packed` in the place of `rows`: they come in
one record, see `database.packed`. Labels, property keys and index
names cannot be Cypher parameters, so a statement that needs the user's own names holds a placeholder such as
`__LABEL__`, which `statement` replaces by the quoted identifier.
"""

from functools import cache
from importlib.resources import files


def quote(identifier: str) -> str:
    """An identifier in back-ticks, with back-ticks inside doubled (the Cypher rule for escaped names)."""
    return "`" + identifier.replace("`", "``") + "`"


@cache
def statement(name: str, /, **identifiers: str) -> str:
    """The statement stored as `name` (such as `jobs/start`), without its header.

    `identifiers` fill the placeholders: `label="Book"` replaces `__LABEL__` by `` `Book` ``.
    Every statement gets the `CYPHER 5` prefix, since newer servers may default to a later language version.
    """
    text = files(__package__).joinpath(f"{name}.cypher").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("//")]
    body = "\n".join(line for line in lines if line.strip())
    for placeholder, identifier in identifiers.items():
        body = body.replace(f"__{placeholder.upper()}__", quote(identifier))
    return f"CYPHER 5\n{body}"

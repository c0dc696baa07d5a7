"""Commands as a person types them into a shell: what is data stays one word, whatever it looks like."""

import re
import shlex

from neo4j_queue.wellformed import CONTROLS

PROGRAM = "neo4j-queue"
# What bash's `$'…'` gives a meaning.
_SPECIAL = re.compile(r"[\\']")


def command(verb: str, *words: str, **variables: str) -> str:
    """`neo4j-queue VERB WORD…`, with variables of the environment before it; a word that looks like an option stands
    after `--`."""
    before = [f"{name}={word(value)}" for name, value in variables.items()]
    dashes = ["--"] if any(each.startswith("-") for each in words) else []
    return " ".join([*before, PROGRAM, verb, *dashes, *map(word, words)])


def word(text: str) -> str:
    """One word of a shell. Control characters are written as escapes, so that a line can be copied from a terminal."""
    if not CONTROLS.search(text):
        return shlex.quote(text)
    escaped = _SPECIAL.sub(lambda found: "\\" + found[0], text)
    return "$'" + CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", escaped) + "'"

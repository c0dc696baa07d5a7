"""Which texts can be written down in UTF-8, and how a terminal shows them harmlessly.

A module of its own: the command line asks before it imports the rest.
"""

import re

# What a terminal obeys instead of showing it: C0, DEL and C1. Keys, texts and errors are data and may hold any of it.
CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def is_well_formed(text: str) -> bool:
    """False when halves of characters stand in it: so Python hands over bytes that were no UTF-8, and so JSON may spell
    them. Drivers, providers and files break on them, each in its own way."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def visible(text: str, *, lines: bool = False) -> str:
    """The text with each control character as a visible escape (`\\x1b`); `lines`: its newlines stay."""
    return CONTROLS.sub(lambda m: m[0] if lines and m[0] == "\n" else f"\\x{ord(m[0]):02x}", text)

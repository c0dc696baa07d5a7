"""Which texts can be written down in UTF-8, and how a terminal shows them harmlessly.

A module of its own: the command line asks before it imports the rest.
"""

import re

# What a terminal obeys instead of showing it: C0, DEL and C1, and the marks that turn the direction of what follows.
# Keys, texts and errors are data and may hold any of it.
CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


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
    """The text with each control character as a visible escape (`\\x1b`, `\\u202e`); `lines`: its newlines stay."""

    def escaped(found: re.Match[str]) -> str:
        character = found[0]
        if lines and character == "\n":
            return character
        code = ord(character)
        return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"

    return CONTROLS.sub(escaped, text)

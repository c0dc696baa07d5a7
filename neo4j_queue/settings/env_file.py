"""The file `.env`: is it one that settings can be read from? What cannot be read would leave every default in force."""

from pathlib import Path


def trouble(path: Path) -> str | None:
    """One line that names the file and says what to do, where it is there and no settings can be read from it."""
    if path.is_dir():
        return f"{path.absolute()} is a directory: settings are read from a file of this name, so rename it"
    if path.is_symlink() and not path.exists():
        return f"{path.absolute()} leads to {path.readlink()}, which is not there: remove the link or mend it"
    if not path.is_file():  # none, or a pipe, which can be read only once
        return None
    try:
        content = path.read_bytes()
    except OSError as error:
        return f"{path.absolute()} cannot be read ({error.strerror or error}): give this user the right to read it"
    line = _wrong_line(content)
    if line is None:
        return None
    return f"{path.absolute()} is not text in UTF-8 (line {line}): save it in that encoding"


def _wrong_line(content: bytes) -> int | None:
    """The first line that is not UTF-8, or holds a zero as UTF-16 does."""
    try:
        content.decode("utf-8")
        at = content.find(b"\0")
    except UnicodeDecodeError as error:
        at = error.start
    return None if at < 0 else content.count(b"\n", 0, at) + 1

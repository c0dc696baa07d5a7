"""Secrets in files, as containers hand them over: `NEO4J_PASSWORD_FILE=/run/secrets/graph`."""

from collections.abc import Collection, Mapping
from pathlib import Path

SUFFIX = "_FILE"
# A key or a password; a larger file is another one by mistake.
MOST_BYTES = 65_536


class Unread(str):
    """Stands in place of a secret that could not be read; its text says why."""

    __slots__ = ()


def with_secrets(values: Mapping[str, str | None], names: Collection[str]) -> dict[str, str | None]:
    """The variables of one source (in lower case), with each secret of `names` from its file where one is named."""
    found = dict(values)
    for name in names:
        variable = f"{name}{SUFFIX}".upper()
        path = (values.get(variable.lower()) or "").strip()
        if not path:
            continue
        if (values.get(name) or "").strip():
            found[name] = Unread(f"is set twice, here and by {variable}: leave one of the two")
        else:
            found[name] = _read(Path(path), variable)
    return found


def refuse_unread(value: object) -> object:
    """Raises ValueError for a secret that could not be read."""
    if isinstance(value, Unread):
        raise ValueError(str(value))
    return value


def certificate_file(value: object) -> object:
    """The path of a file with a certificate and its key; blank means not set."""
    if not isinstance(value, str) or not value.strip():
        return None
    path = Path(value.strip())
    try:
        text = path.read_text(encoding="utf-8") if path.is_file() else ""
    except (OSError, UnicodeDecodeError):
        text = ""
    if "BEGIN CERTIFICATE-----" not in text or "PRIVATE KEY-----" not in text:
        raise ValueError("must be a file that can be read and holds a certificate and its key (PEM)")
    return str(path)


def _read(path: Path, variable: str) -> str:
    try:
        # Else a pipe or a device could be waited for without end.
        if not path.is_file():
            return Unread(f"{variable}={path} is not a file")
        if path.stat().st_size > MOST_BYTES:
            return Unread(f"{variable}={path} has more than {MOST_BYTES:,} bytes")
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        return Unread(f"{variable}={path} cannot be read: {why}")
    # Editors and `echo` end a file with a line break that is not part of the secret.
    secret = text.rstrip("\r\n")
    return secret if secret.strip() else Unread(f"{variable}={path} is empty")

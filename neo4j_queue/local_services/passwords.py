"""The passwords of the services of one directory: random, made once, in a file that this user alone can read.

Loopback is no door: Neo4j's Bolt speaks WebSocket, so without a password any web page that is open on this machine
could run Cypher, and every local user could send tasks through Redis.
"""

import json
import os
import secrets
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields
from hashlib import sha256
from pathlib import Path
from tempfile import NamedTemporaryFile

from neo4j_queue.local_services.failures import ServiceError

FILE = "passwords.json"
# 128 bits cannot be guessed. Hexadecimal: it means the same in a URL, in a shell, in `.env` and in redis.conf.
BYTES = 16
# Neo4j has this user from the beginning, and on Community no other role.
USER = "neo4j"
# What the server itself hashes a password with.
SALT_BYTES, ROUNDS = 32, 1024


@dataclass(frozen=True, slots=True)
class Passwords:
    """One password for each service."""

    graph: str = field(repr=False)
    jobs: str = field(repr=False)
    redis: str = field(repr=False)
    flower: str = field(repr=False)


def read(directory: Path) -> Passwords | None:
    """The passwords of a directory of services; None if it has none. Raises `ServiceError` for a damaged file."""
    file = directory / FILE
    try:
        values = json.loads(file.read_text(encoding="utf-8"))
        return Passwords(**{each.name: str(values[each.name]) for each in fields(Passwords)})
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError, OSError) as error:
        raise ServiceError(
            f"{file} cannot be read ({type(error).__name__}): put it back, or remove {directory} to begin with empty "
            "services"
        ) from None


def make(directory: Path) -> Passwords:
    """Makes the passwords of a directory; those that another process has made in the meantime win."""
    directory.mkdir(parents=True, exist_ok=True)
    made = Passwords(*(secrets.token_hex(BYTES) for _ in fields(Passwords)))
    # Such a file is for this user alone from the beginning.
    with NamedTemporaryFile("w", dir=directory, prefix=f"{FILE}.", encoding="utf-8") as partial:
        partial.write(json.dumps(asdict(made)))
        partial.flush()
        # Whole or not at all, and never over another one: a server keeps the password of its first start.
        with suppress(FileExistsError):
            os.link(partial.name, directory / FILE)
    there = read(directory)
    if there is None:
        raise ServiceError(f"{directory / FILE} was removed while it was written; try again")
    return there


def no_password() -> None:
    """For a server without one."""


def write_private(path: Path, text: str) -> None:
    """Writes a file that only this user can read, whatever stood there and whatever the umask is."""
    path.unlink(missing_ok=True)
    with open(path, "x", encoding="utf-8", opener=private) as file:
        file.write(text)


def private(path: str, flags: int) -> int:
    """For `open`: a new file is for this user alone."""
    return os.open(path, flags, mode=0o600)


def first_user(password: str) -> str:
    """The line of `dbms/auth.ini` with which a server that has no user yet begins, as `neo4j-admin dbms
    set-initial-password` writes it. No second Java has to start for it."""
    salt = secrets.token_bytes(SALT_BYTES)
    digest = sha256(salt + password.encode()).digest()
    for _ in range(ROUNDS - 1):
        digest = sha256(digest).digest()
    return f"{USER}:SHA-256,{digest.hex().upper()},{salt.hex().upper()},{ROUNDS}:\n"

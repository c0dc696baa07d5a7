"""The `.env` that `up` writes, and what people are shown of it: never a password."""

from collections.abc import Mapping
from pathlib import Path

from neo4j_queue.cli import session

ENV_FILE = Path(".env")


def lines_of(environment: Mapping[str, str]) -> str:
    """The text of the file."""
    lines = ["# Written by `neo4j-queue up`. Every setting: .env.example."]
    lines += [f"{name}={value}" for name, value in environment.items()]
    return "\n".join(lines) + "\n"


def write(environment: Mapping[str, str]) -> Path | None:
    """Writes `.env` into the current directory, for this user alone; None, and nothing changed, where there is one."""
    from neo4j_queue.local_services.passwords import private

    try:
        # Exclusive: a file that appears at this moment is not overwritten either.
        with open(ENV_FILE, "x", encoding="utf-8", opener=private) as file:
            file.write(lines_of(environment))
    except FileExistsError:
        return None
    return ENV_FILE.resolve()


def without_secret(name: str, value: str) -> str:
    """The value of a setting as it may be shown."""
    from neo4j_queue.settings.readers import without_password

    return "***" if name.endswith("_PASSWORD") and value else without_password(value)


def tell(environment: Mapping[str, str], written: Path | None, right: Path | None) -> None:
    """Says what became of `.env`; `right` is a file with the right lines, for one that does not fit."""
    if written:
        print(f"They are written to {written}, passwords included")
        return
    from dotenv import dotenv_values

    from neo4j_queue.settings import env_file

    print(f"{ENV_FILE.resolve()} was there and is left as it is")
    trouble = env_file.trouble(ENV_FILE)
    if trouble is not None:
        session.warn(trouble)
        return
    there = dotenv_values(ENV_FILE)
    wrong = [
        _other_value(name, there.get(name) or "", value)
        for name, value in environment.items()
        # The retention is the operator's choice, not a fact about these services.
        if name != "EMBED_JOB_RETENTION_DAYS" and there.get(name) != value
    ]
    for line in wrong:
        session.warn(line)
    if wrong and right:
        session.warn(f"the lines for these services are in {right}")


def _other_value(name: str, there: str, here: str) -> str:
    """The line for a setting of `.env` that does not fit the services; two passwords look the same."""
    shown, right = without_secret(name, there), without_secret(name, here)
    return (
        f"{ENV_FILE} has another {name}" if shown == right else f"{ENV_FILE} has {name}={shown}, not {right}"
    )

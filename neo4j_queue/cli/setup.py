"""`setup`: what is prepared once before a deployment starts."""

from pathlib import Path
from typing import Annotated

import typer

from neo4j_queue.cli import output, session
from neo4j_queue.cli.env_file import ENV_FILE
from neo4j_queue.cli.services import AsJson

COMPOSE_FILE = "compose.yaml"
NEXT = ("docker compose up -d --build", "docker compose run --rm control neo4j-queue doctor")


def register(app: typer.Typer) -> None:
    """Adds this module's commands."""
    setup = typer.Typer(no_args_is_help=True, help="Prepare a deployment.")
    setup.command()(compose)
    # With one command alone typer would make `setup` itself that command.
    setup.callback()(lambda: None)
    app.add_typer(setup, name="setup")


def compose(
    directory: Annotated[
        Path, typer.Option(exists=True, file_okay=False, help="Where compose.yaml is.")
    ] = Path(),
    json: AsJson = False,
) -> None:
    """Make the passwords of both databases, Redis and Flower, in the .env beside compose.yaml.

    What .env has is kept; what is missing is added, and the file becomes readable by its owner alone. Run it again
    whenever you like. Passwords count from the first start of the databases' volumes: later they are changed there.

    Exit code 1 when there is no compose.yaml; 75 when a password in .env cannot work.

    \b
    Examples:
      neo4j-queue setup compose
      neo4j-queue setup compose --directory /srv/neo4j-queue
    """
    from neo4j_queue.errors import SettingsError
    from neo4j_queue.local_services import compose_env
    from neo4j_queue.settings import env_file

    trouble = env_file.trouble(directory / ENV_FILE)
    if trouble is not None:
        raise SettingsError([trouble])
    if not (directory / COMPOSE_FILE).is_file():
        session.refuse(f"there is no {COMPOSE_FILE} in {directory.resolve()}")
    written = compose_env.prepare(directory / ENV_FILE)
    if json:
        names = {"made": list(written.made), "kept": list(written.kept), "closed": written.closed}
        output.print_json({"env_file": str(written.file), **names, "next": list(NEXT)})
        return
    print(f"{written.file}, readable by its owner alone")
    for word, found in (("made", written.made), ("kept", written.kept)):
        if found:
            print(f"  {word}: {', '.join(found)}")
    if written.closed:
        print("  others could read it until now: change passwords and keys in it that matter")
    print("Next:")
    for line in NEXT:
        print(f"  {line}")

"""The demo's settings: its own services; from the shell it takes over the provider's key and address alone."""

import os
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic_settings import BaseSettings, PydanticBaseSettingsSource

from neo4j_queue.local_services.passwords import write_private
from neo4j_queue.settings import Settings

# `tasks` and `celeryconfig` lie beside the package, in a clone as in an installation.
APP_DIRECTORY = Path(__file__).parents[2]

# Short locks: what a killed worker held is worked on again half a minute later, while a person watches. The
# local model answers in milliseconds, so even these are generous.
SHORT_LOCKS = {
    "EMBED_JOB_LOCK_DURATION_MS": "30000",
    "EMBED_JOB_START_DEADLINE_MS": "10000",
    "EMBED_JOB_HEARTBEAT_INTERVAL_MS": "10000",
    "EMBED_JOB_RECOVERY_INTERVAL": "5000",
    "EMBED_REQUEST_TIMEOUT_MS": "5000",
}
# A local model is not metered. Blank names: services of an earlier version know no users, whatever a `.env` nearby
# says.
OURS = {
    "EMBEDDING_RATE_LIMIT_TOKENS": "unlimited",
    "NEO4J_USERNAME": "",
    "NEO4J_PASSWORD": "",
    "EMBED_JOB_DATABASE_USERNAME": "",
    "EMBED_JOB_DATABASE_PASSWORD": "",
}
# What the demo takes over from the shell, when it is there: how to reach a provider, and how to log.
TAKEN_OVER = (
    "OPENAI_API_KEY",
    "OPENAI_BASE_URL",
    "OPENAI_EMBEDDING_MODEL",
    "OPENAI_EMBEDDING_DIMENSIONS",
    "MOCK_EMBEDDING_LATENCY_MS",
    "LOG_LEVEL",
)
# What is the user's own and stands in the shell anyhow.
SECRET = ("OPENAI_API_KEY",)


class DemoSettings(Settings):
    """Settings from the given values alone: no environment, no `.env`."""

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],  # noqa: ARG003 - the signature is pydantic's
        init_settings: PydanticBaseSettingsSource,
        *_others: Any,
        **_named: Any,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Only what the caller gives."""
        return (init_settings,)

    @classmethod
    def of(cls, variables: Mapping[str, str]) -> "DemoSettings":
        """The settings that these variables mean."""
        values: dict[str, Any] = {name.lower(): value for name, value in variables.items()}
        return cls(**values)


def variables(services: Mapping[str, str], provider: str) -> dict[str, str]:
    """The demo's variables, on services at these addresses (`LocalServices.environment()`)."""
    taken = {name: os.environ[name] for name in TAKEN_OVER if name in os.environ}
    return {**OURS, **SHORT_LOCKS, **taken, "EMBEDDING_PROVIDER": provider, **services}


def process_environment(variables: Mapping[str, str]) -> dict[str, str]:
    """The environment for Celery: the shell's, with the demo's variables in place of all of ours."""
    known = {name.upper() for name in Settings.model_fields} | {"REDIS_URL"}
    shell = {name: value for name, value in os.environ.items() if name not in known}
    paths = os.pathsep.join(filter(None, (str(APP_DIRECTORY), shell.get("PYTHONPATH"))))
    return {**shell, **variables, "PYTHONPATH": paths}


def write_shell_file(path: Path, variables: Mapping[str, str]) -> None:
    """A file to source: after it, `neo4j-queue` and `celery` of that shell mean the demo.

    For this user alone, since it holds the passwords of the demo's services.
    """
    lines = ["# Source this file: neo4j-queue and celery of this shell then mean the demo."]
    lines += [
        f"export {name}={shlex.quote(value)}" for name, value in variables.items() if name not in SECRET
    ]
    lines += [
        f"export PATH={shlex.quote(str(Path(sys.executable).parent))}:$PATH",
        f"export PYTHONPATH={shlex.quote(str(APP_DIRECTORY))}",
    ]
    write_private(path, "\n".join(lines) + "\n")

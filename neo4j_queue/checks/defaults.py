"""Where the addresses come from when a database does not answer: without `.env` they may be mere defaults."""

from neo4j_queue.settings import Settings
from neo4j_queue.settings.settings import ENV_FILE

ADDRESSES = ("neo4j_uri", "embed_job_database_uri", "celery_broker_url")


def without_env_file(settings: Settings) -> str | None:
    """One line that says that this directory has no `.env` and which addresses are defaults; None if it has one, or if
    all addresses are given."""
    if ENV_FILE.exists():
        return None
    defaults = [name for name in ADDRESSES if name not in settings.model_fields_set]
    if not defaults:
        return None
    values = ", ".join(f"{name.upper()}={getattr(settings, name)}" for name in defaults)
    return f"there is no .env in {ENV_FILE.absolute().parent}; these are defaults: {values}"

"""Every setting of the product, read strictly from the environment and from `.env`."""

from neo4j_queue.settings.settings import Role, Settings

__all__ = [
    "Role",
    "Settings",
]

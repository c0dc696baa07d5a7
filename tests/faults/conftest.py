"""The world of the process tests, for faults."""

from tests.celery.conftest import make_world, provider

__all__ = ["make_world", "provider"]

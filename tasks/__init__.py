"""The Celery side of neo4j-queue: `celery -A tasks worker|beat|flower|call|inspect …`.

Thin on purpose: a task body reads like a sentence and calls `neo4j_queue`.
"""

from tasks import census, limits
from tasks.app import app as celery

# `celery inspect` knows the commands that are registered by now, and asks for no other.
__all__ = ["celery", "census", "limits"]

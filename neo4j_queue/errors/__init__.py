"""What can go wrong, what it means for the jobs concerned, and what is said about it."""

from neo4j_queue.errors.classify import ErrorCategory, Fault, FaultKind, classify
from neo4j_queue.errors.errors import (
    EntityNotFound,
    InvalidAnswer,
    Neo4jQueueError,
    SettingsError,
    TemporarilyUnavailable,
    UnembeddableText,
    WrongWidth,
)

__all__ = [
    "EntityNotFound",
    "ErrorCategory",
    "Fault",
    "FaultKind",
    "InvalidAnswer",
    "Neo4jQueueError",
    "SettingsError",
    "TemporarilyUnavailable",
    "UnembeddableText",
    "WrongWidth",
    "classify",
]

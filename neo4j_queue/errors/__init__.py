"""The errors of the product, what an error means for the jobs concerned, and what a person is told of it."""

from neo4j_queue.errors.classify import ErrorCategory, Fault, FaultKind, classify
from neo4j_queue.errors.errors import (
    DialectError,
    EntityLocked,
    EntityNotFound,
    InvalidAnswer,
    KeyTaken,
    Neo4jQueueError,
    SettingsError,
    TemporarilyUnavailable,
    UnembeddableText,
    WrongWidth,
)

__all__ = [
    "DialectError",
    "EntityLocked",
    "EntityNotFound",
    "ErrorCategory",
    "Fault",
    "FaultKind",
    "InvalidAnswer",
    "KeyTaken",
    "Neo4jQueueError",
    "SettingsError",
    "TemporarilyUnavailable",
    "UnembeddableText",
    "WrongWidth",
    "classify",
]

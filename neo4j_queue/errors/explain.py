"""What an error means to a person and to a shell: one line, and an exit code."""

from neo4j.exceptions import DriverError, Neo4jError

from neo4j_queue.errors.classify import FaultKind, classify
from neo4j_queue.errors.errors import Neo4jQueueError, SettingsError, TemporarilyUnavailable

EXIT_TEMPORARY = TemporarilyUnavailable.exit_code
EXIT_CONFIGURATION = SettingsError.exit_code
EXIT_BAD = 1

# Too many wrong passwords lately: the right one is refused too, for some seconds.
LOCKED_OUT = "Neo.ClientError.Security.AuthenticationRateLimit"


def is_temporary(error: Exception) -> bool:
    """Is this an error of the driver that may be gone a moment later?"""
    if isinstance(error, Neo4jError) and error.code == LOCKED_OUT:
        return True
    return isinstance(error, Neo4jError | DriverError) and classify(error).kind is FaultKind.STORE


def explain(error: Exception) -> str:
    """The message of a database, of a provider or of any other error in one line, without keys and texts."""
    message = (error.message if isinstance(error, Neo4jError) else None) or classify(error).message
    return " ".join(message.split())


def exit_code_of(error: Exception) -> int:
    """What a program ends with after this error: 78 configuration, 75 temporarily impossible, else 1."""
    if isinstance(error, Neo4jQueueError):
        return error.exit_code
    if is_temporary(error):
        return EXIT_TEMPORARY
    kind = classify(error).kind
    if kind in (FaultKind.OUTAGE, FaultKind.RATE_LIMIT, FaultKind.QUOTA):
        return EXIT_TEMPORARY
    return EXIT_CONFIGURATION if kind is FaultKind.CONFIGURATION else EXIT_BAD

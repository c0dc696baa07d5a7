"""An error as a person and a shell see it: one line, and an exit code."""

from neo4j.exceptions import DriverError, Neo4jError

from neo4j_queue.errors.classify import FaultKind, classify
from neo4j_queue.errors.errors import Neo4jQueueError, SettingsError, TemporarilyUnavailable

EXIT_TEMPORARY = TemporarilyUnavailable.exit_code
EXIT_CONFIGURATION = SettingsError.exit_code
EXIT_BAD = 1

# Too many wrong passwords lately: the right one is refused too, for some seconds.
LOCKED_OUT = "Neo.ClientError.Security.AuthenticationRateLimit"


def is_temporary(error: Exception) -> bool:
    """True if an error of the driver may be gone a moment later."""
    if isinstance(error, Neo4jError) and error.code == LOCKED_OUT:
        return True
    return isinstance(error, Neo4jError | DriverError) and classify(error).kind is FaultKind.STORE


def explain(error: Exception) -> str:
    """The message of any error (of a database, of a provider) in one line, without keys and texts."""
    message = (error.message if isinstance(error, Neo4jError) else None) or classify(error).message
    return " ".join(message.split())


def exit_code_of(error: Exception) -> int:
    """The exit code of a program after this error: 78 configuration, 75 temporarily impossible, else 1."""
    if isinstance(error, Neo4jQueueError):
        return error.exit_code
    if is_temporary(error):
        return EXIT_TEMPORARY
    kind = classify(error).kind
    if kind in (FaultKind.OUTAGE, FaultKind.RATE_LIMIT, FaultKind.QUOTA):
        return EXIT_TEMPORARY
    return EXIT_CONFIGURATION if kind is FaultKind.CONFIGURATION else EXIT_BAD

"""The errors that the product raises itself."""

from collections.abc import Sequence
from typing import ClassVar


class Neo4jQueueError(Exception):
    """Base of every error that the product raises itself. `exit_code` is the exit code of the command line."""

    exit_code: ClassVar[int] = 1


class SettingsError(Neo4jQueueError):
    """The configuration cannot work. `problems` has one line per wrong setting, each naming the variable."""

    exit_code = 78  # EX_CONFIG

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = list(problems)
        super().__init__("\n".join(self.problems))


class TemporarilyUnavailable(Neo4jQueueError):
    """A service does not answer now; the same call may work later."""

    exit_code = 75  # EX_TEMPFAIL


class EntityLocked(TemporarilyUnavailable):
    """Another transaction holds an entity's lock for longer than the server lets ours wait. `uid` is the entity's key
    if the server named the node."""

    def __init__(self, message: str, uid: str | None = None) -> None:
        super().__init__(message)
        self.uid = uid


class EntityNotFound(Neo4jQueueError):
    """No current entity has this name (soft-deleted ones do not count).

    `reason`: what stands there instead, such as a soft-deleted entity.
    """

    def __init__(self, name: str, reason: str | None = None) -> None:
        self.name = name
        self.reason = reason
        super().__init__(f"Entity not found: {name}" + (f" ({reason})" if reason else ""))


class KeyTaken(Neo4jQueueError):
    """An entity cannot be renamed, for another one has that key (a soft-deleted one counts)."""

    def __init__(self, name: str, wanted: str, *, deleted: bool) -> None:
        self.name = name
        self.wanted = wanted
        other = "a soft-deleted entity" if deleted else "another entity"
        super().__init__(f"Entity {name} cannot be renamed to {wanted}: {other} has that key")


class UnembeddableText(Neo4jQueueError):
    """The text can never be embedded, in any state of the provider (it is blank, or too long for the model)."""


class InvalidAnswer(Neo4jQueueError):
    """The provider answered with success, but without one usable vector per text.

    The embedder fills in the `status`, the `request_id` and the `request` itself: `classify` redacts by it what the
    answer may have quoted.
    """

    status: int | None = None
    request_id: str | None = None
    request: object | None = None


class DialectError(InvalidAnswer):
    """The answer has a shape that no text explains: the server speaks another dialect than the settings say.

    One such answer may be a proxy's page of a bad moment; if a harmless text gets one too, it is the configuration's.
    """

    exit_code = 78  # EX_CONFIG
    advice = (
        "see OPENAI_BASE_URL, EMBEDDING_ENCODING_FORMAT and EMBEDDING_EXTRA_BODY (docs/how-to/providers.md)"
    )

    def __init__(self, problem: str, advice: str | None = None) -> None:
        super().__init__(f"{problem}: {advice or self.advice}")


class WrongWidth(InvalidAnswer):
    """All vectors of an answer have one width, and it is not the configured one: model and settings disagree.

    Every further answer would be paid for and of no use. The embedder fills in the `model` and the `advice` as well.
    """

    exit_code = 78  # EX_CONFIG
    model = "the model"
    advice = "set NEO4J_VECTOR_DIMENSIONS to the width of the model's vectors"

    def __init__(self, given: int, configured: int) -> None:
        super().__init__(given, configured)
        self.given = given
        self.configured = configured

    def __str__(self) -> str:
        return (
            f"{self.disagreement(self.model, self.configured)}, its vectors have {self.given}: {self.advice}"
        )

    @staticmethod
    def disagreement(model: str, configured: int) -> str:
        """The beginning of the message: the width that was configured."""
        return f"{model} is configured with {configured} dimensions (NEO4J_VECTOR_DIMENSIONS)"

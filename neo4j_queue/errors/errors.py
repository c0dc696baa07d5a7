"""The errors that this package raises on purpose."""

from collections.abc import Sequence
from typing import ClassVar


class Neo4jQueueError(Exception):
    """Base of every error this package raises on purpose. `exit_code` is what the command line ends with."""

    exit_code: ClassVar[int] = 1


class SettingsError(Neo4jQueueError):
    """The configuration cannot work. `problems` has one line per wrong setting, each naming the variable."""

    exit_code = 78  # EX_CONFIG

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = list(problems)
        super().__init__("\n".join(self.problems))


class TemporarilyUnavailable(Neo4jQueueError):
    """A service that is needed does not answer now; the same call may work later."""

    exit_code = 75  # EX_TEMPFAIL


class EntityNotFound(Neo4jQueueError):
    """No current entity has this name (deleted and soft-deleted ones count as not there)."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f"Entity not found: {name}")


class UnembeddableText(Neo4jQueueError):
    """This text can never be embedded, whatever the provider's state (blank, or too long for the model)."""


class InvalidAnswer(Neo4jQueueError):
    """The provider answered with success, but not with one usable vector per text.

    Whoever made the request fills in its `status`, its `request_id` and the `request` itself, by which
    `classify` redacts what the answer may have quoted.
    """

    status: int | None = None
    request_id: str | None = None
    request: object | None = None


class WrongWidth(InvalidAnswer):
    """Every vector of an answer has one and the same width, and it is not the configured one: no glitch of the
    provider's, for model and settings disagree, and every further answer would be paid for and of no use.

    Whoever made the request fills in the `model` as well, and the `advice`.
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
        """How the message begins: what was configured when it was found to be wrong."""
        return f"{model} is configured with {configured} dimensions (NEO4J_VECTOR_DIMENSIONS)"

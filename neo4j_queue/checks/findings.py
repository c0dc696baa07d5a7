"""What a look at one part found, with what to do about it."""

from dataclasses import dataclass
from enum import StrEnum


class Grade(StrEnum):
    """How bad a finding is: `bad` stops the work, `warning` costs something."""

    OK = "ok"
    WARNING = "warning"
    BAD = "bad"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at."""

    subject: str
    grade: Grade
    detail: str
    advice: str | None = None

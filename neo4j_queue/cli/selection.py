"""Options that say which failed jobs are meant, the same for every command that takes them."""

import re
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from neo4j_queue.cli import driver

if TYPE_CHECKING:
    from neo4j_queue.queue.failed_jobs import Selection

HTTP_MIN, HTTP_MAX = 100, 599
# So long ago: a number and a unit.
AGO = re.compile(r"(?P<count>\d{1,9})(?P<unit>[smhd])")
UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
TIME = "2h, 30m, 3d (ago), or 2026-07-01T12:00Z"


class Category(StrEnum):
    """The values of `--category`."""

    TRANSIENT = "TRANSIENT"
    PERMANENT = "PERMANENT"
    CRITICAL = "CRITICAL"


class Reason(StrEnum):
    """The values of `--reason`."""

    PERMANENT_ERROR = "permanent_error"
    MAX_RETRIES_EXCEEDED = "max_retries_exceeded"
    WORKER_LOST = "worker_lost"


def _http_status(text: str) -> int:
    """The number of `--status`; a name is refused with the option that takes it."""
    if text.isdecimal() and HTTP_MIN <= int(text) <= HTTP_MAX:
        return int(text)
    categories, reasons = ", ".join(Category), ", ".join(Reason)
    raise typer.BadParameter(
        f"{text!r} is not an HTTP status ({HTTP_MIN} to {HTTP_MAX}). "
        f"By name: --category {categories}; --reason {reasons}."
    )


OfCategory = Annotated[
    Category | None, typer.Option(case_sensitive=False, help="Only failures of this category.")
]
OfReason = Annotated[
    Reason | None, typer.Option(case_sensitive=False, help="Only jobs that failed for this reason.")
]
OfStatus = Annotated[
    int | None,
    typer.Option(
        parser=_http_status, metavar="STATUS", help="Only failures with this HTTP status, such as 503."
    ),
]
OfType = Annotated[
    str | None,
    typer.Option("--type", metavar="CLASS", help="Only failures of this class, such as BadRequestError."),
]
Since = Annotated[
    str | None, typer.Option(metavar="TIME", help=f"Only failures of this time or later: {TIME}.")
]
Until = Annotated[
    str | None, typer.Option(metavar="TIME", help="Only failures of this time or before, written alike.")
]
OfQuota = Annotated[
    bool, typer.Option("--quota", help="Only failures for which the provider's account had no money left.")
]


def selection(
    category: Category | None,
    reason: Reason | None,
    status: int | None,
    error_type: str | None = None,
    since: str | None = None,
    until: str | None = None,
    *,
    quota: bool = False,
) -> "Selection":
    """The failed jobs that the options mean."""
    driver.load()
    from neo4j_queue.queue.failed_jobs import Selection

    # The driver does not take members of an enum.
    return Selection(
        category=None if category is None else category.value,
        reason=None if reason is None else reason.value,
        status=status,
        error_type=error_type,
        since=None if since is None else epoch_ms(since, "--since"),
        until=None if until is None else epoch_ms(until, "--until"),
        quota=quota,
    )


def epoch_ms(text: str, option: str) -> int:
    """The epoch ms that an option means: so long ago, or a time in ISO 8601 (UTC where it names no zone)."""
    ago = AGO.fullmatch(text)
    try:
        if ago is None:
            at = datetime.fromisoformat(text)
            return max(0, round((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000))
        at = datetime.now(UTC) - timedelta(**{UNITS[ago["unit"]]: int(ago["count"])})
    except (ValueError, OverflowError):
        expected = "a time such as 2h, 30m or 3d (ago), or 2026-07-01T12:00Z"
        raise typer.BadParameter(f"{text!r} is not {expected}.", param_hint=option) from None
    return max(0, round(at.timestamp() * 1000))

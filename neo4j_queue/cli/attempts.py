"""How the failed attempts of a job look."""

from collections.abc import Mapping, Sequence
from typing import Any

from neo4j_queue.cli import output

TITLE = "Failed attempts, the last of them"
COLUMNS = ["at", "worker", "error", "message"]


def tell(title: str, history: Sequence[Mapping[str, Any]]) -> None:
    """Prints a table of them, if there are any."""
    if history:
        print()
        output.print_table(title, COLUMNS, [_row(attempt) for attempt in history])


def _row(attempt: Mapping[str, Any]) -> list[object]:
    status = attempt["error_status"]
    kind = [attempt["error_category"], attempt["error_type"], f"HTTP {status}" if status else None]
    met = " ".join(str(part) for part in kind if part)
    return [attempt["at"], attempt["worker"], met, attempt["error"]]

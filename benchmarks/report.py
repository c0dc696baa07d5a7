"""What a benchmark found: tables for people, the same as JSON for programs, and the targets."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table as RichTable

from benchmarks.machine import describe

RESULTS = Path(__file__).parent / "results"
# Tables are as wide as their columns need, also where the output is piped into a file.
WIDTH = 130


@dataclass(slots=True)
class Table:
    """Rows of measurements. `columns` maps the key in the JSON to the heading; `baseline` names what is compared to."""

    title: str
    columns: Mapping[str, str]
    baseline: str = ""
    rows: list[dict[str, Any]] = field(default_factory=list)

    def add(self, **values: Any) -> None:
        """One row; a key that is missing is left blank."""
        unknown = values.keys() - self.columns.keys()
        if unknown:
            raise KeyError(f"no such columns: {sorted(unknown)}")
        self.rows.append(values)

    def rendered(self) -> RichTable:
        """The table for a terminal."""
        shown = RichTable()
        for heading in self.columns.values():
            shown.add_column(
                heading, justify="left" if heading == next(iter(self.columns.values())) else "right"
            )
        for row in self.rows:
            shown.add_row(*(_shown(row.get(key)) for key in self.columns))
        return shown


@dataclass(frozen=True, slots=True)
class Target:
    """A figure with the bound that it is to keep (`at_least`, else at most)."""

    what: str
    value: float
    bound: float
    at_least: bool = False

    @property
    def met(self) -> bool:
        """True if the bound is kept."""
        return self.value >= self.bound if self.at_least else self.value <= self.bound


@dataclass(slots=True)
class Report:
    """The tables of one benchmark, in the order in which they were made."""

    name: str
    options: Mapping[str, Any]
    tables: list[Table] = field(default_factory=list)
    targets: list[Target] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    machine: dict[str, Any] = field(default_factory=describe)

    def show(self, console: Console) -> None:
        """Prints everything."""
        for table in [*self.tables, *([self._targets()] if self.targets else [])]:
            # Not as title and caption of the table, which would be wrapped to its width.
            console.print(f"\n[bold]{table.title}[/bold]", highlight=False)
            console.print(table.rendered())
            if table.baseline:
                console.print(f"Baseline: {table.baseline}", highlight=False)
        for note in self.notes:
            console.print(note)

    def save(self, directory: Path = RESULTS) -> Path:
        """Writes `<name>.json` and returns its path; an earlier one is replaced."""
        directory.mkdir(parents=True, exist_ok=True)
        path = directory / f"{self.name}.json"
        content = {
            "benchmark": self.name,
            "machine": self.machine,
            "load_at_end": describe()["load"],
            "options": dict(self.options),
            "tables": [
                {"title": table.title, "baseline": table.baseline, "rows": table.rows}
                for table in self.tables
            ],
            "targets": [
                {"what": t.what, "value": t.value, "bound": t.bound, "at_least": t.at_least, "met": t.met}
                for t in self.targets
            ],
            "notes": self.notes,
        }
        path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
        return path

    def _targets(self) -> Table:
        table = Table("Targets", {"what": "figure", "value": "measured", "bound": "target", "met": ""})
        for target in self.targets:
            sign = "at least" if target.at_least else "at most"
            table.add(
                what=target.what,
                value=target.value,
                bound=f"{sign} {_shown(target.bound)}",
                met="met" if target.met else "MISSED",
            )
        return table


def console() -> Console:
    """Where tables go: the terminal, or a file without colours."""
    plain = Console()
    return plain if plain.is_terminal else Console(width=WIDTH)


def _shown(value: Any) -> str:
    match value:
        case None:
            return ""
        case bool():
            return "yes" if value else "no"
        case int():
            return f"{value:,}"
        case float():
            # Three digits say all that a measurement on a shared machine can.
            return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
        case _:
            return str(value)

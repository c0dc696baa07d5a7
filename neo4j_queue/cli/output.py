"""How answers look: JSON for programs, tables for people, progress for both kinds of terminal."""

import json
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO

from neo4j_queue.times import duration as duration
from neo4j_queue.times import iso as iso
from neo4j_queue.wellformed import visible as visible

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

# Columns of a table in a pipe: wide enough that nothing is cut that a person wants to grep.
PIPE_WIDTH = 200
# Seconds between two plain lines of progress where there is no terminal.
PLAIN_EVERY_S = 5.0

# What a terminal would obey, and JSON lets stand: DEL and C1.
_CONTROLS_IN_JSON = re.compile(r"[\x7f-\x9f]")

Advance = Callable[[int, int | None], None]


def print_line(line: str, file: TextIO | None = None) -> None:
    """Prints one line for people, which no data in it can break or colour; on stdout by default."""
    print(visible(line), file=file)


def in_lines(text: str) -> "Text":
    """A cell of several lines."""
    from rich.text import Text

    return Text(visible(text, lines=True))


def print_json(answer: object) -> None:
    """Prints one line of JSON on stdout. JSON leaves DEL and C1 as they are, so they are escaped for terminals."""
    line = json.dumps(answer, ensure_ascii=False, default=str)
    print(_CONTROLS_IN_JSON.sub(lambda m: f"\\u{ord(m[0]):04x}", line))


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Prints a table; None is an empty cell."""
    _console().print(table(title, columns, rows))


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> "Table":
    """A table; None is an empty cell."""
    from rich import box
    from rich.table import Column, Table
    from rich.text import Text

    # A heading that wraps is read as two: the cells give way instead.
    headings = [Column(Text(column, no_wrap=True), min_width=len(column)) for column in columns]
    made = Table(*headings, title=title, title_justify="left", box=box.SIMPLE_HEAD)
    for row in rows:
        made.add_row(*(cell if isinstance(cell, Text) else Text(shown(cell)) for cell in row))
    return made


def print_facts(title: str, facts: Mapping[str, object]) -> None:
    """Prints names and values, one per line; those without a value are left out."""
    _console().print(in_pairs(title, facts))


def in_pairs(title: str, facts: Mapping[str, object]) -> "Table":
    """Names and values, one per line; those without a value are left out."""
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title, title_justify="left", box=None, show_header=False, padding=(0, 2, 0, 0))
    for name, value in facts.items():
        if value is not None and value != "":
            table.add_row(name, value if isinstance(value, Text) else Text(shown(value)))
    return table


def shown(value: object) -> str:
    """A value as people read it, free of characters that a terminal obeys."""
    match value:
        case None:
            return ""
        case bool():
            return "yes" if value else "no"
        case int():
            return f"{value:,}"
        case float():
            return f"{value:,.1f}"
        case list() | tuple():
            return ", ".join(shown(item) for item in value)
        case _:
            return visible(str(value))


def counted(count: int, one: str, many: str | None = None) -> str:
    """A number with its noun: `1 text`, `1,200 texts`."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


@contextmanager
def progress(what: str) -> Iterator[Advance]:
    """Shows how far long work is, with rate and ETA: `advance(done, total)`, total None while unknown.

    A bar on a terminal, a plain line every few seconds otherwise; always on stderr, beside the answer.
    """
    if sys.stderr.isatty():
        with _bar(what) as advance:
            yield advance
    else:
        yield _plain_lines(what)


@contextmanager
def _bar(what: str) -> Iterator[Advance]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
    )
    start = time.monotonic()
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None, rate="")

        def advance(done: int, total: int | None) -> None:
            bar.update(task, completed=done, total=total, rate=f"{_rate(done, start):,.0f}/s")

        yield advance


def _plain_lines(what: str) -> Advance:
    start = time.monotonic()
    said = start

    def advance(done: int, total: int | None) -> None:
        nonlocal said
        now = time.monotonic()
        if now - said < PLAIN_EVERY_S:
            return
        said = now
        rate = _rate(done, start)
        line = f"{what}: {done:,}" + (f" of {total:,}" if total is not None else "") + f", {rate:,.0f}/s"
        if total is not None and rate > 0:
            line += f", {duration((total - done) / rate)} left"
        print(line, file=sys.stderr)

    return advance


def _rate(done: int, start: float) -> float:
    return done / max(time.monotonic() - start, 1e-3)


def _console() -> Any:
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else PIPE_WIDTH, highlight=False)

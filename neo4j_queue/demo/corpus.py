"""The demo's graph: the documentation of the Python standard library, as every machine has it.

Modules, classes, functions and methods are entities, their docstrings the observations, and `CONTAINS`
relations lead from a module to its classes and functions, and from a class to its methods.
"""

import json
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

INTROSPECT = Path(__file__).with_name("introspect.py")
# Two seconds on an idle laptop; a machine with a cold disk and other work gets thirty times that.
TIMEOUT_S = 60

# A vector is an average over its text: the first paragraphs of a docstring say what a thing is for, and what
# follows (parameters, examples, corner cases) pulls the vector away from it. Measured on 21 paraphrased
# questions with the local model: three paragraphs of 200 characters rank the right answer best (mean
# reciprocal rank 0.90; whole docstrings 0.83, a single paragraph 0.79); parameter lists made it worse.
PARAGRAPHS = 3
PARAGRAPH_CHARS = 200

BLANK_LINES = re.compile(r"\n\s*\n")


class CorpusError(RuntimeError):
    """The standard library could not be read; the message says why."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One documented thing: dotted name, `module`, `class`, `function` or `method`, and what it is for."""

    name: str
    entity_type: str
    observations: tuple[str, ...]

    @property
    def container(self) -> str:
        """The name of what contains it; "" for a top-level module."""
        return self.name.rpartition(".")[0]


@dataclass(frozen=True, slots=True)
class Corpus:
    """Entries, containers first, and the (container, contained) names of the CONTAINS relations."""

    entries: tuple[Entry, ...]
    relations: tuple[tuple[str, str], ...]


def collect(limit: int | None = None) -> Corpus:
    """Reads the standard library of the running Python, in a process of its own; the same in each run.

    `limit` keeps that many entries, shortest paths first (modules, then what they offer, then methods), so
    that a part is a whole graph too. Raises CorpusError when the library can't be read.
    """
    records = [json.loads(line) for line in _introspect().splitlines()]
    entries = _documented({record["name"]: record for record in records})
    # A container's name is shorter than the names inside it: it comes first, whatever the limit.
    entries.sort(key=lambda entry: (entry.name.count("."), entry.name))
    kept = tuple(islice(entries, limit))
    return Corpus(kept, tuple((entry.container, entry.name) for entry in kept if entry.container))


def observations_of(doc: str) -> tuple[str, ...]:
    """The first paragraphs of a docstring, each on one line and cut at a word's end."""
    paragraphs = (" ".join(paragraph.split()) for paragraph in BLANK_LINES.split(doc))
    said = (paragraph for paragraph in paragraphs if re.search(r"\w", paragraph))
    return tuple(
        textwrap.shorten(text, PARAGRAPH_CHARS, placeholder=" …") for text in islice(said, PARAGRAPHS)
    )


def _introspect() -> str:
    # -I and -S: the standard library only, whatever PYTHONPATH and site-packages hold.
    command = [sys.executable, "-I", "-S", str(INTROSPECT)]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8", timeout=TIMEOUT_S
        )
    except subprocess.TimeoutExpired as error:
        raise CorpusError(f"reading the standard library took more than {TIMEOUT_S} s") from error
    if done.returncode != 0:
        raise CorpusError(f"reading the standard library failed: {done.stderr.strip()[-2000:]}")
    return done.stdout


def _documented(records: Mapping[str, Mapping[str, str]]) -> list[Entry]:
    """The things with docstrings, and the containers (documented or not) that lead to them."""
    kept: set[str] = set()
    for name in _named(records.values()):
        while name and name not in kept:
            kept.add(name)
            name = name.rpartition(".")[0]
    return [Entry(name, records[name]["type"], observations_of(records[name]["doc"])) for name in kept]


def _named(records: Iterable[Mapping[str, str]]) -> Iterable[str]:
    return (record["name"] for record in records if observations_of(record["doc"]))

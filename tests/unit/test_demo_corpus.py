"""The demo's graph: read from the standard library quietly, the same each time, and good to search in."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from neo4j_queue.demo import corpus
from neo4j_queue.demo.corpus import Corpus, CorpusError, collect, observations_of
from neo4j_queue.embedders import open_embedder
from neo4j_queue.settings import Settings
from neo4j_queue.text import TextRecipe

# What the demo must answer, with the names that are right answers.
DEMO_QUESTIONS = {
    "compress a file": r"(gzip|zlib|bz2|lzma|zipfile|tarfile)\b|shutil\.make_archive",
    "parse command line options": r"(argparse|optparse|getopt)\b",
    "wait for several threads": r"threading\.(Thread\.join|Barrier)|concurrent\.futures\.(wait|as_completed)",
}
# Others of that kind, to see that the shape of the texts is good in general and not for those three.
OTHER_QUESTIONS = {
    "send an email message": r"smtplib\b",
    "pick a random element from a list": r"random\.(\w+\.)?choices?$|secrets\.choice",
    "read a spreadsheet exported as comma separated values": r"csv\b",
    "temporary directory that is deleted afterwards": r"tempfile\.TemporaryDirectory",
    "run another program and capture its output": r"subprocess\b",
    "convert a date to text": r"datetime\.date\.\w+format",
    "sort a list": r"builtins\.(sorted|list\.sort)",
    "copy a directory tree": r"shutil\.copytree",
    "greatest common divisor": r"math\.gcd",
    "split a shell command into words": r"shlex\.split",
    "talk to a database": r"sqlite3\b",
    "generate a unique identifier": r"uuid\b",
    "encode binary data as text": r"base64\b|binascii\b",
}


@pytest.fixture(scope="module")
def library() -> Corpus:
    return collect()


def test_holds_several_thousand_things_of_every_kind(library: Corpus) -> None:
    kinds = [entry.entity_type for entry in library.entries]
    assert 5_000 <= len(kinds) <= 10_000
    assert all(kinds.count(kind) > 300 for kind in ("module", "class", "function", "method"))
    assert set(kinds) == {"module", "class", "function", "method"}


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("gzip.compress", "function"),
        ("os.path.join", "function"),  # not posixpath.join
        ("os.rename", "function"),  # not posix.rename
        ("json.JSONDecoder", "class"),  # not json.decoder.JSONDecoder
        ("concurrent.futures.wait", "function"),  # not concurrent.futures._base.wait
        ("threading.Thread.join", "method"),
        ("collections.abc", "module"),
        ("builtins.len", "function"),
        ("unittest.main", "module"),  # a class has the same name
    ],
)
def test_things_have_the_names_that_people_know(library: Corpus, name: str, kind: str) -> None:
    assert {entry.name: entry.entity_type for entry in library.entries}.get(name) == kind


def test_names_are_public_and_unique(library: Corpus) -> None:
    names = [entry.name for entry in library.entries]
    assert len(set(names)) == len(names)
    assert [name for name in names if re.search(r"(^|\.)_", name)] == []


def test_each_thing_comes_after_its_container_and_is_related_to_it(library: Corpus) -> None:
    seen: set[str] = set()
    for entry in library.entries:
        assert entry.container in seen or (not entry.container and entry.entity_type == "module")
        seen.add(entry.name)
    assert len(library.relations) == sum("." in name for name in seen)
    assert ("threading", "threading.Thread") in library.relations
    assert ("threading.Thread", "threading.Thread.join") in library.relations


def test_only_containers_may_be_without_a_docstring(library: Corpus) -> None:
    containers = {container for container, _ in library.relations}
    undocumented = {entry.name for entry in library.entries if not entry.observations}
    assert undocumented <= containers
    assert "concurrent" in undocumented  # an empty package in front of concurrent.futures


def test_every_run_reads_the_same(library: Corpus) -> None:
    """The hash seed differs in each child process, so an order that came out of a set would differ."""
    assert collect() == library


def test_a_part_is_a_whole_graph_too(library: Corpus) -> None:
    part = collect(700)
    assert part.entries == library.entries[:700]
    names = {entry.name for entry in part.entries}
    assert all(container in names and name in names for container, name in part.relations)


def test_reading_prints_nothing_and_leaves_this_process_alone(capfd: pytest.CaptureFixture[str]) -> None:
    before = set(sys.modules)
    collect()
    assert capfd.readouterr() == ("", "")
    assert not {"curses", "pydoc", "xmlrpc.server"} & (set(sys.modules) - before)


def test_the_imported_modules_print_and_warn_nothing() -> None:
    command = [sys.executable, "-I", "-S", str(corpus.INTROSPECT)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert all(line.startswith('{"name": ') for line in done.stdout.splitlines())


def test_a_failing_reader_is_reported_with_its_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "broken.py"
    broken.write_text("raise SystemExit('no library today')")
    monkeypatch.setattr(corpus, "INTROSPECT", broken)
    with pytest.raises(CorpusError, match="no library today"):
        collect()


def test_a_hanging_reader_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hanging = tmp_path / "hanging.py"
    hanging.write_text("import threading; threading.Event().wait()")
    monkeypatch.setattr(corpus, "INTROSPECT", hanging)
    monkeypatch.setattr(corpus, "TIMEOUT_S", 1)
    with pytest.raises(CorpusError, match="more than 1 s"):
        collect()


def test_observations_are_the_first_paragraphs_on_one_line_each() -> None:
    doc = "Packs\n    things.\n\n----\n\n\nSecond.\n \nThird.\n\nFourth."
    assert observations_of(doc) == ("Packs things.", "Second.", "Third.")
    assert observations_of("") == ()


def test_a_long_paragraph_is_cut_at_the_end_of_a_word() -> None:
    (cut,) = observations_of("word " * 100)
    assert len(cut) <= corpus.PARAGRAPH_CHARS
    assert cut.endswith("word …")


class Answers:
    """The names that the local model ranks first, over all entities."""

    def __init__(self, library: Corpus) -> None:
        self._embedder = open_embedder(Settings(_env_file=None, embedding_provider="local"))
        self._names = [entry.name for entry in library.entries]
        recipe = TextRecipe.memento()
        texts = [
            recipe.text({"name": e.name, "entityType": e.entity_type, "observations": list(e.observations)})
            for e in library.entries
        ]
        self._vectors = np.array(self._embedder.embed(texts).vectors)

    def first_five(self, question: str) -> list[str]:
        (vector,) = self._embedder.embed([question]).vectors
        best = np.argsort(-(self._vectors @ np.array(vector)))[:5]
        return [self._names[index] for index in best]


@pytest.fixture(scope="module")
def answers(library: Corpus) -> Answers:
    return Answers(library)


@pytest.mark.parametrize(("question", "right"), DEMO_QUESTIONS.items())
def test_the_questions_of_the_demo_are_answered(answers: Answers, question: str, right: str) -> None:
    """With whole docstrings as observations, the third one has no right answer."""
    found = answers.first_five(question)
    assert any(re.match(right, name) for name in found), found


def test_most_other_questions_are_answered_too(answers: Answers) -> None:
    """Names alone, without observations, answer fewer of them."""
    found = {question: answers.first_five(question) for question in OTHER_QUESTIONS}
    missed = {
        question: found[question]
        for question, right in OTHER_QUESTIONS.items()
        if not any(re.match(right, name) for name in found[question])
    }
    assert len(missed) <= 1, missed

"""Names between back-ticks, and the statements that they are filled into."""

from importlib.resources import files
from pathlib import Path

import pytest

from neo4j_queue import cypher
from neo4j_queue.cypher import NAME_MAX, PLAIN, SLOTTED, STATEMENTS_KEPT, quote, statement

ANY = dict.fromkeys(
    (
        *("label", "key", "deleted", "name", "index", "among", "property", "properties"),
        "changed",
        *("vector", "vector_model", "vector_hash", "vector_at", "vector_truncated"),
    ),
    "x",
)
FILES = sorted(Path(str(files(cypher))).rglob("*.cypher"))
NAMES = [f"{file.parent.name}/{file.stem}" for file in FILES]


@pytest.mark.parametrize(
    "name",
    [
        *("", " ", "\n", "a\0b", "a\nb", "a\x7fb", "a\x85b", "half \ud83d", "x" * (NAME_MAX + 1)),
        *(r"\u0060", r"a\\u0060", r"\\\u0060", r"\uu0060", r"\u", r"\u005cu0060"),
    ],
)
def test_a_name_that_the_quotes_cannot_hold_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="must be a name"):
        quote(name)


@pytest.mark.parametrize(
    ("name", "quoted"),
    [("a", "`a`"), ("a`b", "`a``b`"), (r"C:\temp", r"`C:\temp`"), (r"\U0060", r"`\U0060`"), ("é", "`é`")],
)
def test_any_other_name_stands_between_back_ticks(name: str, quoted: str) -> None:
    assert quote(name) == quoted


def test_a_name_that_looks_like_a_placeholder_stays_a_name() -> None:
    """Seen failing with placeholders filled one after the other: the key ended the quotes of the label."""
    assert "(n:`A__KEY__`)\nWHERE n.`B__LABEL__` IN [$keys[0], $keys[1]]" in statement(
        "graph/delete", label="A__KEY__", key="B__LABEL__"
    )


def test_a_list_of_names_becomes_properties() -> None:
    text = statement("schema/entity_words", index="i", label="L", properties=("a__INDEX__", "b`"))
    assert "ON EACH [n.`a__INDEX__`, n.`b```]" in text


def test_a_placeholder_without_a_name_is_an_error() -> None:
    with pytest.raises(KeyError, match="label"):
        statement("graph/delete", key="k")


def test_statements_are_kept_within_a_bound() -> None:
    """Seen failing with a cache without bound: one entry for each name ever seen."""
    for at in range(STATEMENTS_KEPT + 10):
        statement("schema/drop_index", name=f"i{at}")
    assert statement.cache_info().currsize == STATEMENTS_KEPT


@pytest.mark.parametrize("name", NAMES)
def test_a_statement_that_locks_and_judges_again_takes_one_row_after_the_other(name: str) -> None:
    """Seen failing with the plain prefix: Enterprise's runtime reads ahead of the lock that a statement waits for."""
    text = statement(name, **ANY)
    body = text.removeprefix(SLOTTED).removeprefix(PLAIN)
    locks = "_lock = true" in body or "MERGE" in body or "_created" in body
    assert text.startswith(SLOTTED) or (not locks or name.startswith("schema/jobs_"))
    assert not body.startswith("CYPHER")


@pytest.mark.parametrize("name", NAMES)
def test_every_statement_says_what_it_locks(name: str) -> None:
    """The prefix follows from the header: a file without one would be taken for a statement that locks nothing."""
    text = Path(str(files(cypher)), f"{name}.cypher").read_text()
    assert cypher._LOCKS.search(text)


def test_reading_and_schema_statements_keep_the_fast_runtime() -> None:
    plain = ("graph/read_texts", "graph/entities_page", "graph/nearest", "schema/entity_key", "schema/jobs_1")
    assert [name for name in plain if not statement(name, **ANY).startswith(PLAIN)] == []
    locking = ("graph/write_vectors", "jobs/start", "jobs/complete", "jobs/heartbeat", "retention/remove")
    assert [name for name in locking if not statement(name, **ANY).startswith(SLOTTED)] == []


@pytest.mark.parametrize("name", [name for name in NAMES if name.startswith("graph/")])
def test_no_statement_spells_the_name_of_the_vector_property(name: str) -> None:
    """Seen failing with `n.embedding` in graph/coverage: a graph with another vector property would count wrongly."""
    assert "embedd" not in statement(name, **ANY).replace("embedded", "")

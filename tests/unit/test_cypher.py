"""Names between back-ticks, and the statements that they are filled into."""

import pytest

from neo4j_queue.cypher import NAME_MAX, STATEMENTS_KEPT, quote, statement


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
    assert "(n:`A__KEY__` {`B__LABEL__`: $uid})" in statement(
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

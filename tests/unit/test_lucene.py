"""What a person types becomes words: nothing in it is syntax."""

import pytest

from neo4j_queue.graph.lucene import CLAUSES_MOST, WORDS_MOST, all_of, words_of


@pytest.mark.parametrize(
    ("typed", "query"),
    [
        ("plain words", "plain words"),
        ("title:(a OR", r"title\:\(a \OR"),
        ("a AND b NOT c OR d", r"a \AND b \NOT c \OR d"),
        ("and or not", "and or not"),
        ("os.path.join", r"os\.path\.join"),
        (r"\u0041 C:\temp", r"\\u0041 C\:\\temp"),
        ('"a phrase" foo* b?r ~2 ^4 +x -y !z', r"\"a phrase\" foo\* b\?r \~2 \^4 \+x \-y \!z"),
        ("[a TO b] {c} a/b a&&b a||b", r"\[a TO b\] \{c\} a\/b a\&\&b a\|\|b"),
        ("snake_case e-mail", r"snake\_case e\-mail"),
        ("größer 東京 🜚", "größer 東京 🜚"),
        ("same same SAME", "same SAME"),
        ("a　b\tc\nd", "a b c d"),
    ],
)
def test_whatever_is_typed_is_words(typed: str, query: str) -> None:
    """Seen failing with the text as it is: the parser's syntax."""
    assert " ".join(words_of(typed, 3)) == query


@pytest.mark.parametrize("typed", ["", " ", "?", "*:*", "() [] {}", "--- && ||", '"""', "\\", "/"])
def test_what_holds_no_word_asks_for_nothing(typed: str) -> None:
    assert words_of(typed, 3) == []


def test_a_page_of_text_is_searched_by_its_first_words() -> None:
    typed = " ".join(f"word{at}" for at in range(5_000))
    assert words_of(typed, 3) == [f"word{at}" for at in range(WORDS_MOST)]
    assert len(words_of(typed, 50)) == CLAUSES_MOST // 50


def test_a_page_without_blanks_is_searched_by_its_beginning() -> None:
    """Guard: the parts that a word may be taken apart into. An analyzer for CJK makes a clause of each two signs."""
    assert words_of("漢" * 5_000, 3) == ["漢" * (CLAUSES_MOST // 3)]
    assert words_of("a.b," * 5_000, 4)[0].count("a") == CLAUSES_MOST // 4 // 2


def test_a_query_for_all_words_asks_for_each() -> None:
    assert all_of(words_of("the (who) AND", 3)) == r"+the +\(who\) +\AND"
    assert all_of([]) == ""

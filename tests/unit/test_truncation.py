"""Where a text that is too long for the model is cut, and that the count of its tokens errs on the safe side."""

import math
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from neo4j_queue.embedders.cut import _whole_characters, cautious_tokens, cut, parts
from neo4j_queue.errors import UnembeddableText
from neo4j_queue.graph.entities import EntityText
from neo4j_queue.pipeline.truncation import MOST_PARTS, LongText, LongTexts, mean
from neo4j_queue.text import content_hash, estimate_tokens

FAMILY = "👩‍👩‍👧‍👦"
THUMB = "👍🏽"
SCOTLAND = "\U0001f3f4\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f"
FLAGS = "🇩🇪🇫🇷🇯🇵"
# One character to a reader, several to Python.
CLUSTERS = [
    *("e\u0301", "각", FAMILY, THUMB, SCOTLAND, "❤\ufe0f", "क\u094dष", "g\u0308\u0323"),
    # A Thai vowel, a sign that keeps letters apart, an Arabic number sign: no combining marks, and yet not alone.
    *("ก\u0e33", "ک\u200c", "\u06001"),
]


def text_of(text: str) -> EntityText:
    return EntityText("n", text, content_hash(text), (text,), fresh=False, deleted=False)


# --- counting


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", 0),
        ("word", 1),
        ("words", 2),
        ("12", 1),
        ("é", 1),
        ("漢字", 3),
        ("😀", 3),
        ("the name: Ada", 4),
    ],
)
def test_tokens_by_the_kind_of_character(text: str, tokens: int) -> None:
    assert cautious_tokens(text) == tokens


@given(st.text())
def test_the_cautious_count_is_never_below_the_check_of_the_bytes(text: str) -> None:
    text = text.encode("utf-8", "replace").decode()
    assert cautious_tokens(text) >= estimate_tokens(text)


@pytest.mark.parametrize(
    "text",
    [
        "知识就是力量，真理使我们摆脱无知和恐惧的束缚。天下大势，分久必合，合久必分。" * 10,
        "吾輩は猫である。名前はまだ無い。どこで生れたかとんと見当がつかぬ。" * 10,
        "Все счастливые семьи похожи друг на друга, каждая несчастливая семья несчастлива по-своему. " * 10,
        "Η γνώση είναι δύναμη και η αλήθεια μας ελευθερώνει από τα δεσμά της άγνοιας. " * 10,
        "المعرفة قوة والحقيقة تحررنا من قيود الجهل والخوف في كل زمان ومكان. " * 10,
    ],
    ids=["Chinese", "Japanese", "Russian", "Greek", "Arabic"],
)
def test_a_real_tokenizer_of_small_vocabulary_hardly_counts_more(text: str) -> None:
    """It has 32,000 entries; those of today's embedding models have three to eight times as many, and count less.

    With a quarter of a token per byte, which is the plain estimate, the Chinese text fails at 1.9.
    """
    tokenizer = pytest.importorskip("tokenizers").Tokenizer
    spec: Any = find_spec("wordllama")
    (vocabulary,) = Path(spec.origin).parent.glob("tokenizers/*_tokenizer_config.json")
    real = tokenizer.from_file(str(vocabulary))
    real.no_truncation()
    assert len(real.encode(text, add_special_tokens=False).ids) <= 1.15 * cautious_tokens(text)


# --- cutting


def test_a_text_that_fits_is_left_as_it_is() -> None:
    for text in ("", "short", "x" * 400, "  spaces around  "):
        assert cut(text, 100) == text


def test_a_cut_is_at_the_last_space_near_the_end() -> None:
    text = "word " * 1_000
    kept = cut(text, 100)
    assert kept == ("word " * 80).rstrip()
    assert text.startswith(kept)
    # No space near: in the middle of the word, at the limit exactly.
    assert cut("one " + "x" * 1_000, 100) == "one " + "x" * 396


@pytest.mark.parametrize("cluster", CLUSTERS)
@pytest.mark.parametrize("shift", range(12))
def test_what_is_one_character_to_a_reader_is_not_parted(cluster: str, shift: int) -> None:
    """Guard: `_whole_characters` in `cut`. Without it every cluster is parted at some shift."""
    text = "x" * shift + cluster * 200
    kept = cut(text, 100)
    assert 0 < len(kept) < len(text)
    assert (len(kept) - shift) % len(cluster) == 0


@pytest.mark.parametrize("shift", range(8))
def test_flags_stay_whole(shift: int) -> None:
    kept = cut("x" * shift + FLAGS * 50, 100)
    assert (len(kept) - shift) % 2 == 0


@pytest.mark.parametrize("limit", range(750, 762))
def test_flags_stay_whole_far_from_where_they_begin(limit: int) -> None:
    """Guard: the size of `WINDOW`. At 65 code points half of these limits part a flag."""
    assert len(cut(FLAGS * 100, limit)) % 2 == 0


def test_only_the_window_is_looked_at() -> None:
    """Guard: the slice in `_whole_characters`. Without it half a million letters of flags take two seconds, not two
    milliseconds, since each of them looks back for the first one."""
    text = FLAGS * 100_000
    begun = time.process_time()
    _whole_characters(text, 500_000)
    assert time.process_time() - begun < 0.5


def test_a_heap_of_accents_is_cut_somewhere() -> None:
    kept = cut("e" + "\u0301" * 10_000, 100)
    assert len(kept) > 90


def test_leading_space_does_not_leave_a_blank_text() -> None:
    assert cut(" " * 10_000 + "word", 100) == "word"
    assert cut("\n" * 10_000 + "word " * 1_000, 100).startswith("word word")


@given(st.text(alphabet='ab 1"\n éßж漢😀\u0301\u200d🇩', min_size=1, max_size=400), st.integers(16, 60))
@example("😀" * 100, 16)
def test_a_cut_text_is_a_beginning_within_the_limit_and_not_blank(text: str, limit: int) -> None:
    kept = cut(text, limit)
    assert cautious_tokens(kept) <= limit
    assert text.lstrip().startswith(kept.lstrip())
    assert kept.strip() or not text.strip()


# --- what becomes of an entity's text


def test_a_cut_text_keeps_the_hash_of_the_whole() -> None:
    whole = text_of("word " * 1_000)
    fitted = LongTexts(100).fitted(whole)
    assert fitted.truncated
    assert (fitted.content_hash, fitted.version, fitted.source) == (
        whole.content_hash,
        whole.version,
        whole.source,
    )
    assert fitted.text == cut(whole.text, 100)


@pytest.mark.parametrize("chosen", list(LongText))
def test_a_text_that_fits_goes_as_it_is(chosen: LongText) -> None:
    text = text_of("word " * 70)
    assert LongTexts(100, chosen).fitted(text) is text


def test_a_text_that_may_not_be_cut_is_refused_with_both_numbers() -> None:
    with pytest.raises(UnembeddableText, match=r"about 250 tokens, the model takes 100 \(EMBED_LONG_TEXTS"):
        LongTexts(100, LongText.FAIL).fitted(text_of("word" * 250))


def test_a_text_that_may_fit_is_for_the_provider_to_judge_when_it_may_not_be_cut() -> None:
    """The cautious count is a guess, and a guess fails nobody."""
    text = text_of("漢" * 130)
    assert estimate_tokens(text.text) <= 100 < cautious_tokens(text.text)
    assert LongTexts(100, LongText.FAIL).fitted(text) is text
    assert LongTexts(100).fitted(text).truncated


def test_counting_does_not_take_long() -> None:
    """A text of 2 MB is cut by counting it some twenty times, not by walking over its characters."""
    text = "Ein Satz mit Umlauten: äöü. " * 70_000
    assert math.isclose(cautious_tokens(cut(text, 100_000)), 100_000, rel_tol=0.01)


# --- parts of a text


def test_parts_end_with_sentences_and_hold_everything() -> None:
    text = " ".join(f"This is sentence number {n} of the whole." for n in range(200))
    found, whole = parts(text, 100, MOST_PARTS)
    assert whole
    assert len(found) > 5
    assert all(cautious_tokens(part) <= 100 for part in found)
    assert all(part.endswith("whole.") for part in found)
    assert " ".join(found) == text


@pytest.mark.parametrize(
    "text",
    [
        "word " * 500,
        "a" * 5_000,
        "漢字" * 500,
        "👩‍👩‍👧‍👦" * 200,
        "\r\n".join(["║ box ║"] * 300),
        "No end " * 9 + "x" * 900,
    ],
)
def test_parts_leave_out_nothing_but_space_between_them(text: str) -> None:
    found, whole = parts(text, 40, 10_000)
    assert whole
    assert "".join("".join(found).split()) == "".join(text.split())
    assert max(map(cautious_tokens, found)) <= 40


@given(st.text(alphabet='ab .!1"\n éßж漢。😀\u0301\u200d🇩', max_size=600), st.integers(16, 60))
def test_any_text_comes_apart_within_the_limit(text: str, limit: int) -> None:
    found, whole = parts(text, limit, 10_000)
    assert whole
    assert all(part.strip() and cautious_tokens(part) <= limit for part in found)
    assert "".join("".join(found).split()) == "".join(text.split())


def test_a_text_of_megabytes_comes_apart_quickly_and_not_into_thousands() -> None:
    """Guard: the window. Without it each part counts all that is left: the square of the length."""
    text = "Ein Satz mit Umlauten: äöü. " * 70_000
    began = time.process_time()
    found, whole = parts(text, 512, 5_000)
    assert time.process_time() - began < 5
    assert whole
    fitted = LongTexts(512, LongText.AVERAGE).fitted(text_of(text))
    assert len(fitted.parts) == MOST_PARTS < len(found)
    assert fitted.truncated


def test_a_text_in_parts_keeps_its_own_text_and_hash() -> None:
    whole = text_of("A sentence of some words. " * 100)
    fitted = LongTexts(100, LongText.AVERAGE).fitted(whole)
    assert fitted.text == whole.text
    assert fitted.inputs == fitted.parts
    assert not fitted.truncated
    assert fitted.content_hash == whole.content_hash
    assert LongTexts(10_000, LongText.AVERAGE).fitted(whole) is whole


def test_the_mean_is_weighted_by_length_and_of_length_one() -> None:
    assert mean([[1.0, 0.0], [0.0, 1.0]], [30, 40]) == pytest.approx([0.6, 0.8])
    assert mean([[0.0, 5.0]], [7]) == [0.0, 1.0]


def test_parts_that_cancel_out_leave_the_vector_of_the_longest() -> None:
    """A vector of zeros is refused by the index, and found by nothing."""
    assert mean([[0.0, 1.0], [0.0, -1.0]], [2, 2]) == [0.0, 1.0]

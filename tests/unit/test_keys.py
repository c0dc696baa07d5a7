"""Names and keys: what a text may stand for, and which kind of key a new entity gets."""

import math
from typing import Any

import pytest

from neo4j_queue.graph.accepted import checked_key, checked_name
from neo4j_queue.graph.keys import BEFORE_NUMBERS, Key, Place, keys_of, named, number_of, order, stored_keys


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("42", 42),
        ("0", 0),
        ("-7", -7),
        ("9007199254740993", 9_007_199_254_740_993),
        (str(2**63 - 1), 2**63 - 1),
        (str(-(2**63)), -(2**63)),
    ],
)
def test_a_number_is_named_by_the_one_way_to_write_it(name: str, number: int) -> None:
    """Beyond 2**53 too, where a float would be another number."""
    assert keys_of(name) == [name, number]
    assert named(number) == name
    assert checked_key(number, "id") == number


def test_a_whole_number_is_the_same_number_with_a_point() -> None:
    assert named(42.0) == "42"
    assert checked_key(-7.0, "id") == -7
    assert isinstance(checked_key(-7.0, "id"), int)
    assert stored("42", numbers=True, there=(42.0,)) == [42.0]


@pytest.mark.parametrize(
    "name",
    [
        *("042", "+42", "-0", "4e2", "42.0", " 42", "42 ", "4_2", "", "-", "0x2a", "٤٢", "４２"),
        *("42\n", str(2**63), str(-(2**63) - 1), "9" * 40),
    ],
)
def test_what_looks_like_a_number_is_a_text_and_nothing_else(name: str) -> None:
    """Guard: `_WHOLE` and its bounds. `int()` alone takes all but a few of these for numbers."""
    assert number_of(name) is None
    assert keys_of(name) == [name]


@pytest.mark.parametrize("name", [True, 42.5, math.nan, math.inf, None, [42], b"42"])
def test_what_names_no_entity_is_refused(name: Any) -> None:
    with pytest.raises(ValueError, match="named by a text or a whole number, not"):
        checked_name(name)


@pytest.mark.parametrize("key", [True, 42.5, math.nan, None, "", 2**63, 1e300, [1]])
def test_what_cannot_be_a_key_is_refused(key: Any) -> None:
    with pytest.raises(ValueError, match="`id`"):
        checked_key(key, "id")


def test_texts_stand_before_numbers_and_numbers_by_their_size() -> None:
    places = ["a", 10, "10", 9, -3, BEFORE_NUMBERS, "9"]
    assert sorted(places, key=order) == ["10", "9", "a", BEFORE_NUMBERS, -3, 9, 10]


def stored(
    *given: Key, texts: bool = False, numbers: bool = False, there: tuple[Place, ...] = ()
) -> list[Place]:
    keys = {named(key): key for key in given}
    return list(stored_keys(keys, texts=texts, numbers=numbers, there=there).values())


def test_a_new_entity_gets_the_kind_of_key_that_the_others_have() -> None:
    assert stored("42", "-7", numbers=True) == [42, -7]
    assert stored("42", "a", texts=True) == ["42", "a"]
    assert stored("42", 43, texts=True, numbers=True) == ["42", 43]
    assert stored("42", "43") == ["42", "43"]
    assert stored(42, "43") == [42, 43]


def test_an_entity_that_is_there_keeps_its_key() -> None:
    assert stored("42", texts=True, numbers=True, there=(42,)) == [42]
    assert stored(42, texts=True, there=("42",)) == ["42"]
    # Both are there: the one that was given is meant.
    assert stored(42, texts=True, numbers=True, there=("42", 42)) == [42]
    assert stored("42", texts=True, numbers=True, there=(42, "42")) == ["42"]


@pytest.mark.parametrize(
    ("given", "kinds", "said"),
    [
        ((7,), {"texts": True}, "the keys are texts: the number 7 would be the first one among them"),
        (("042",), {"numbers": True}, "the keys are whole numbers: '042' would be the first text among them"),
        ((7, "a"), {}, "keys are of one kind: 7 is a number, and 'a' is a text"),
    ],
)
def test_a_key_that_would_be_the_first_of_its_kind_is_refused(
    given: tuple[Key, ...], kinds: dict[str, bool], said: str
) -> None:
    with pytest.raises(ValueError, match=r"kind|first") as error:
        stored(*given, **kinds)
    assert str(error.value) == said

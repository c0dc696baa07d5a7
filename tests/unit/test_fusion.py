"""Two orders become one."""

import pytest

from neo4j_queue.graph.fusion import RANK, SOME_WORDS_WEIGHT, fuse, of_meaning, of_words


def test_what_is_first_by_both_with_all_words_has_the_score_one() -> None:
    (first, *rest) = fuse({"a": 0.9, "b": 0.8}, {"a": 7.0, "c": 5.0}, {"a", "c"})
    assert (first.node, first.score, first.semantic, first.keyword) == ("a", pytest.approx(1.0), 0.9, 7.0)
    assert {(each.node, each.semantic, each.keyword) for each in rest} == {("b", 0.8, None), ("c", None, 5.0)}


def test_places_count_and_scores_do_not() -> None:
    small = [each.node for each in fuse({"a": 0.9, "b": 0.1}, {"b": 0.2, "c": 0.1}, ())]
    large = [each.node for each in fuse({"a": 0.9, "b": 0.8999}, {"b": 2_000.0, "c": 0.1}, ())]
    assert small == large
    assert small[0] == "b"


def test_all_words_weigh_as_much_as_the_meaning_and_some_of_them_less() -> None:
    """Seen failing with one weight for both: the entity whose name was typed was behind 25 others."""
    semantic = {f"s{at}": 1.0 - at / 100 for at in range(50)}
    named = [each.node for each in fuse(semantic, {"named": 9.0}, {"named"})]
    assert named[:3] == ["s0", "named", "s1"]
    mentioned = [each.node for each in fuse(semantic, {"mentioned": 9.0}, ())]
    assert mentioned.index("mentioned") == round((RANK + 1) / SOME_WORDS_WEIGHT - RANK) - 1


def test_a_half_alone_gives_its_share() -> None:
    assert [each.score for each in fuse({"a": 0.9}, {}, ())] == [pytest.approx(0.5)]
    assert [each.score for each in fuse({}, {"a": 3.0}, {"a"})] == [pytest.approx(0.5)]
    assert [each.score for each in fuse({}, {"a": 3.0}, ())] == [pytest.approx(SOME_WORDS_WEIGHT / 2)]
    assert fuse({}, {}, ()) == []


def test_each_place_counts_less_than_the_one_before() -> None:
    fused = fuse({str(at): 1.0 - at / 1000 for at in range(100)}, {}, ())
    assert [each.node for each in fused] == [str(at) for at in range(100)]
    assert fused[9].score / fused[0].score == pytest.approx((RANK + 1) / (RANK + 10))


def test_alone_meaning_keeps_its_similarity_and_words_the_share_of_the_best() -> None:
    assert [(e.score, e.semantic, e.keyword) for e in of_meaning({"a": 0.9, "b": 0.5})] == [
        (0.9, 0.9, None),
        (0.5, 0.5, None),
    ]
    assert [(e.score, e.semantic, e.keyword) for e in of_words({"a": 8.0, "b": 2.0})] == [
        (1.0, None, 8.0),
        (0.25, None, 2.0),
    ]
    assert of_words({}) == of_meaning({}) == []

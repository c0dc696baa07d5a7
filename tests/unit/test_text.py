"""The text of an entity is byte-exact: its hash decides whether a vector is current."""

import hashlib
from datetime import date
from types import SimpleNamespace
from typing import Any

import neo4j.time
import pytest
from hypothesis import given
from hypothesis import strategies as st
from neo4j.spatial import CartesianPoint, WGS84Point

from neo4j_queue.text import TextRecipe, content_hash, content_version, estimate_tokens, is_blank, value_lines

MEMENTO = TextRecipe.memento()
HEAD = "Name: Ada\nType: person\nObservations:\n"


@pytest.mark.parametrize(
    ("observations", "tail"),
    [
        (["first", "second"], "- first\n- second"),
        ('["first", "second"]', "- first\n- second"),
        (' ["first"] ', "- first"),
        ("just one", "- just one"),
        ("[not json", "- [not json"),
        ('[1, 2.5, true, null, {"a": 1}]', '- 1\n- 2.5\n- true\n- {"a": 1}'),
        ('{"a": 1}', '- {"a": 1}'),
        (["two\nlines", ""], "- two\nlines\n- "),
        ([7, 8], "- 7\n- 8"),
        (None, "  (No observations)"),
        ([], "  (No observations)"),
        ("[]", "  (No observations)"),
        ("", "  (No observations)"),
        ("[" * 100_000, "- " + "[" * 100_000),
    ],
)
def test_the_memento_text_is_byte_exact_for_every_way_to_store_observations(
    observations: Any, tail: str
) -> None:
    assert MEMENTO.text({"name": "Ada", "entityType": "person", "observations": observations}) == HEAD + tail


def test_a_missing_property_reads_like_an_absent_one() -> None:
    assert MEMENTO.text({"name": "Ada"}) == "Name: Ada\nType: \nObservations:\n  (No observations)"


def test_the_key_property_is_the_name_of_the_memento_text() -> None:
    recipe = TextRecipe.memento("isbn")
    assert recipe.properties == ("isbn", "entityType", "observations")
    assert recipe.text({"isbn": "978", "name": "ignored"}).startswith("Name: 978\n")


def test_a_property_list_gives_the_values_that_say_something_one_per_line() -> None:
    recipe = TextRecipe.of_properties(" title, tags ,year,title")
    assert recipe.properties == ("title", "tags", "year")
    assert recipe.text({"title": "T", "tags": ["a", " ", "b"], "year": 1843, "other": "x"}) == "T\na\nb\n1843"
    assert recipe.text({"tags": None, "year": 1843}) == "1843"


def test_a_template_fills_in_values_and_leaves_missing_ones_empty() -> None:
    recipe = TextRecipe.of_template(r"{title}\n{{by}} {the author}\t{tags}")
    assert recipe.properties == ("title", "the author", "tags")
    text = recipe.text({"title": "T {the author}", "tags": ["a", "b"]})
    assert text == "T {the author}\n{by} \ta\nb"


@pytest.mark.parametrize("template", ["no property", "{{name}}", "{}"])
def test_a_template_without_a_property_is_refused(template: str) -> None:
    with pytest.raises(ValueError, match="names no property"):
        TextRecipe.of_template(template)


def test_a_list_without_a_property_is_refused() -> None:
    with pytest.raises(ValueError, match="no property"):
        TextRecipe.of_properties(" , ")


@pytest.mark.parametrize(
    ("template", "properties", "expected"),
    [("{a}", "b", ("a",)), (None, "b", ("b",)), (None, None, ("id", "entityType", "observations"))],
)
def test_the_settings_choose_the_recipe(
    template: str | None, properties: str | None, expected: tuple[str]
) -> None:
    settings: Any = SimpleNamespace(
        embed_text_template=template, embed_text_properties=properties, embed_entity_key="id"
    )
    assert TextRecipe.from_settings(settings).properties == expected


@pytest.mark.parametrize(
    "recipe", [MEMENTO, TextRecipe.of_properties("name"), TextRecipe.of_template("By {name}.")]
)
@pytest.mark.parametrize("name", [None, "", " \n\t", []])
def test_an_entity_that_says_nothing_has_a_blank_text(recipe: TextRecipe, name: Any) -> None:
    assert is_blank(recipe.text({"name": name}))
    assert not is_blank(recipe.text({"name": "Ada"}))


@pytest.mark.parametrize(
    ("value", "lines"),
    [
        (None, []),
        (1, ["1"]),
        (True, ["true"]),
        (1.0, ["1.0"]),
        (float("nan"), ["NaN"]),
        ([float("inf"), float("-inf")], ["Infinity", "-Infinity"]),
        (neo4j.time.Date(1815, 12, 10), ["1815-12-10"]),
        (neo4j.time.DateTime(1815, 12, 10, 1, 2, 3, 4), ["1815-12-10T01:02:03.000000004"]),
        (neo4j.time.Time(1, 2, 3), ["01:02:03.000000000"]),
        (neo4j.time.Duration(months=1, days=2, seconds=3), ["P1M2DT3S"]),
        (date(1815, 12, 10), ["1815-12-10"]),
        (WGS84Point((1.5, 2)), ["POINT(1.5 2.0)"]),
        ([CartesianPoint((1, 2, 3))], ["POINT(1.0 2.0 3.0)"]),
        (b"\x00\xff", ["00ff"]),
    ],
)
def test_every_value_type_of_the_graph_has_one_spelling(value: Any, lines: list[str]) -> None:
    assert value_lines(value) == lines


def test_hash_version_and_size_of_a_text() -> None:
    text = "Grüße"
    digest = hashlib.sha256(text.encode()).hexdigest()
    assert content_hash(text) == digest
    assert content_version(text) == digest[:16]
    assert [estimate_tokens(each) for each in ("", "a", "abcd", "abcde", text)] == [0, 1, 1, 2, 2]


def test_a_lone_surrogate_in_a_json_string_can_be_hashed() -> None:
    text = MEMENTO.text({"name": "Ada", "observations": r'["\ud800"]'})
    assert text.endswith("- ?")
    assert content_hash(text)


# What JSON, templates, UTF-8 and line ends trip over; any character would take seconds to set up.
TEXTS = st.text(alphabet='ab"[]{}\\,:\n \u2028ß漢\ud83d', max_size=20)
VALUES = st.one_of(st.none(), TEXTS, st.integers(), st.floats(), st.lists(TEXTS), st.booleans())


@given(st.dictionaries(st.sampled_from(["name", "entityType", "observations"]), VALUES))
def test_any_values_give_a_text_that_can_be_hashed_and_is_the_same_again(values: dict[str, Any]) -> None:
    text = MEMENTO.text(values)
    assert content_hash(text) == content_hash(MEMENTO.text(dict(values)))
    assert MEMENTO.text_of([values.get(name) for name in MEMENTO.properties]) == text


@pytest.mark.parametrize(
    ("template", "named"),
    [
        ("{rdfs:label}", "rdfs:label"),
        ("{ title }", "title"),
        ("{\ttitle\n}", "title"),
        ("{`body!r`}", "body!r"),
        ("{` title `}", " title "),
        ("{a.b}", "a.b"),
        ("{0}", "0"),
        ("{a[0]}", "a[0]"),
    ],
)
def test_a_placeholder_names_any_property(template: str, named: str) -> None:
    """Seen failing with the text between the braces as it stands: `{ title }` read a property that no one has."""
    recipe = TextRecipe.of_template(template)
    assert recipe.properties == (named,)
    assert recipe.text({named: "value"}) == "value"

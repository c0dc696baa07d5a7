"""The colours of the page: words and ground have the contrast that WCAG asks for (AA), in light and dark."""

import re
from importlib.resources import files

import pytest

from neo4j_queue.http import page

# 4.5 for words, 3 for what is no word: lines of a picture, edges of fields, the frame of the focus.
WORDS, SHAPES = 4.5, 3.0
PAIRS = [
    *((text, ground, WORDS) for text in ("text", "muted", "link", "error") for ground in ("card", "ground")),
    ("text", "note", WORDS),
    ("text", "code", WORDS),
    ("muted", "code", WORDS),
    ("on-button", "button", WORDS),
    ("on-good", "good", WORDS),
    ("on-warn", "warn", WORDS),
    ("on-bad", "bad", WORDS),
    *((shape, ground, SHAPES) for shape in ("focus", "chart", "edge") for ground in ("card", "ground")),
]
STYLE = files(page).joinpath("static", "page.css").read_text(encoding="utf-8")


def colours(*, dark: bool) -> dict[str, str]:
    """The colours by name; in the dark those of the light that are not named again."""
    blocks = re.findall(r":root \{(.*?)\}", STYLE, re.DOTALL)
    found = [dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", block)) for block in blocks]
    assert len(found) == 2
    return {**found[0], **(found[1] if dark else {})}


def luminance(colour: str) -> float:
    """Relative luminance, as WCAG 2 defines it."""
    parts = [int(colour[first : first + 2], 16) / 255 for first in (1, 3, 5)]
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    """The ratio of two colours, from 1 to 21."""
    darker, lighter = sorted((luminance(one), luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


def test_the_measure_is_that_of_the_standard() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#767676", "#ffffff") == pytest.approx(4.54, abs=0.01)


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize(("over", "under", "least"), PAIRS)
def test_contrast(over: str, under: str, least: float, dark: bool) -> None:
    found = colours(dark=dark)
    assert contrast(found[over], found[under]) >= least


def test_no_colour_stands_outside_the_list() -> None:
    """Else its contrast would be checked by nobody; and every colour is one of the list."""
    rules = re.sub(r":root \{.*?\}", "", STYLE, flags=re.DOTALL)
    assert not re.search(r"#[0-9a-fA-F]{3,8}\b|rgb|hsl", rules)
    assert set(re.findall(r"var\(--([\w-]+)\)", rules)) == set(colours(dark=False))
    assert colours(dark=True).keys() == colours(dark=False).keys()

"""What commands print: data never steers the terminal."""

import json

import pytest

from neo4j_queue.cli import output, session

# Clear the screen, BEL, DEL, and CSI as C1 writes it.
NASTY = "a\x1b[2J\x07\x7f\x9b31mé\tz"
SHOWN = r"a\x1b[2J\x07\x7f\x9b31mé\x09z"


def test_control_characters_are_shown_as_escapes() -> None:
    assert output.visible(NASTY) == SHOWN
    assert output.visible("a\nb\r") == r"a\x0ab\x0d"
    assert output.visible("a\nb\r", lines=True) == "a\nb\\x0d"
    # Marks that turn the direction of what follows; those that only belong to a script stay.
    assert output.visible("a\u202eb\u2066c\u200fd") == "a\\u202eb\\u2066c\u200fd"


def test_tables_facts_and_lines_show_them(capsys: pytest.CaptureFixture[str]) -> None:
    output.print_table("", ["entity", "many"], [[NASTY, [NASTY, "b"]]])
    output.print_facts("", {"entity": NASTY, "stack": output.in_lines(f"1\n{NASTY}")})
    output.print_line(NASTY)
    session.warn(NASTY)
    with pytest.raises(Exception):  # noqa: B017, PT011 (typer's way to end)
        session.refuse(NASTY)
    said = capsys.readouterr()
    assert (said.out.count(SHOWN), said.err.count(SHOWN)) == (5, 2)
    assert all(c == "\n" or c.isprintable() for c in said.out + said.err)


def test_json_has_them_escaped_and_means_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    output.print_json({NASTY: NASTY})
    line = capsys.readouterr().out
    assert line.rstrip("\n").isprintable()
    assert json.loads(line) == {NASTY: NASTY}


def test_no_heading_wraps_in_a_narrow_table(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seen to fail with plain columns: "model" and "tokens" stand in two lines."""
    monkeypatch.setattr(output, "PIPE_WIDTH", 24)
    output.print_table("", ["model tokens", "entity"], [["1", "a long text that has to give way to it"]])
    assert "model tokens" in capsys.readouterr().out


def test_a_number_agrees_with_its_noun() -> None:
    assert output.counted(1, "text") == "1 text"
    assert output.counted(0, "text") == "0 texts"
    assert output.counted(1_200, "entity", "entities") == "1,200 entities"

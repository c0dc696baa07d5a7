"""No key and no text of an entity in what is stored and logged."""

import json
import time

import httpx2
import openai
import pytest
from hypothesis import given
from hypothesis import strategies as st

from neo4j_queue.errors import classify
from neo4j_queue.errors.redact import HIDDEN_KEY, HIDDEN_TEXT, QUOTED_CHARS, Redactor

KEY = "tok-4711-private"
TEXT = 'Name: Größe\nType: concept\nObservations:\n- "quoted" 日本語 text with a \\ in it, and quite long'

# Few letters, so that windows of a text occur in it more than once.
LETTERS = "abcé日"
# A backslash before a quotation may make an escape of its first letters: five at most.
PIECE = QUOTED_CHARS + 5


def failed(message: str, *texts: str, key: str = KEY) -> openai.APIStatusError:
    """The exception of a request that carried these texts, whose answer said `message`."""
    request = httpx2.Request(
        "POST",
        "http://provider.invalid/v1/embeddings",
        headers={"Authorization": f"Bearer {key}"},
        json={"input": list(texts), "model": "m"},
    )
    return openai.APIStatusError(
        message, response=httpx2.Response(400, request=request), body={"message": message}
    )


@pytest.mark.parametrize(
    "quoted",
    [
        TEXT,
        TEXT[:40],
        TEXT[-40:],
        TEXT[10:50],
        json.dumps(TEXT),
        json.dumps(TEXT, ensure_ascii=False),
        repr(TEXT),
    ],
    ids=["whole", "beginning", "end", "middle", "JSON", "JSON with umlauts", "repr"],
)
def test_a_quotation_of_a_text_is_hidden(quoted: str) -> None:
    fault = classify(failed(f"input refused: {quoted} (position 3)", "another text", TEXT))

    for word in ("Größe", "Observations", "日本語", "quite long", "concept"):
        assert word not in fault.message
        assert word not in (fault.stack or "")
    assert HIDDEN_TEXT in fault.message
    assert fault.message.startswith("HTTP 400: input refused: ")
    assert fault.message.endswith("(position 3)")


def test_a_short_text_is_hidden_where_it_appears_whole() -> None:
    assert classify(failed("refused: Ada Lovelace.", "Ada Lovelace")).message == "HTTP 400: refused: [text]."


def test_the_providers_own_words_stay() -> None:
    message = "This model's maximum context length is 8192 tokens"

    assert classify(failed(message, "about tokens and the context length of models", "is")).message == (
        f"HTTP 400: {message}"
    )


@pytest.mark.parametrize("key", [KEY, "sk-proj-abcdef1234567890", "0123456789"])
def test_the_key_of_the_request_is_hidden(key: str) -> None:
    fault = classify(failed(f"wrong key {key}!", "text", key=key))

    assert fault.message == f"HTTP 400: wrong key {HIDDEN_KEY}!"
    assert key not in (fault.stack or "")


def test_what_looks_like_a_key_is_hidden_without_a_request() -> None:
    fault = classify(ValueError("Incorrect API key provided: sk-abc1*****************7890."))

    assert "7890" not in fault.message
    assert fault.message.startswith("Incorrect API key provided: [key]")


@given(
    text=st.text(LETTERS, min_size=PIECE, max_size=200),
    start=st.integers(0, 150),
    before=st.text(max_size=40),
    after=st.text(max_size=40),
)
def test_no_long_piece_of_a_text_survives(text: str, start: int, before: str, after: str) -> None:
    """A quotation is hidden wherever it stands and whatever stands around it."""
    start = min(start, len(text) - PIECE)
    piece = text[start : start + PIECE]
    redactor = Redactor(texts=("other text", text))

    cleaned = redactor.clean(before + piece + after, 2_000)

    assert piece not in cleaned


def test_a_huge_request_is_redacted_quickly_enough() -> None:
    """2,048 texts of 500 characters: seconds of processor time would hold up a worker in an outage."""
    texts = [f"text number {n} " + "lorem ipsum dolor " * 27 for n in range(2_048)]
    exc = failed("x" * 5_000, *texts)

    started = time.process_time()
    classify(exc)

    assert time.process_time() - started < 2.0

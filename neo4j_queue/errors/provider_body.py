"""What an error body of a provider says, whatever its shape: its message, and the codes beside it."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

# Names of the fields in which providers put a machine-readable cause: OpenAI (`code`, `type`), Google (`status`,
# `reason`), gateways (`error_code`, `errcode`).
CODE_FIELDS = ("code", "type", "status", "reason", "error_code", "errcode")
# A cause is a word: longer texts are messages.
CODE_CHARS = 100
# Google sends one to three details; a body may claim any number.
MOST_DETAILS = 10
# A gateway puts the body that it got into its own message. Longer ones are not worth a second parse.
NESTED_CHARS = 20_000


@dataclass(frozen=True, slots=True)
class ErrorBody:
    """The message and the first code in an error body, and every other code (`codes`), in lower case.

    `nested`: the codes of a body that stood as JSON inside the message. `wait`: how long to wait, such as `34s`, in
    Google's details: its answers name it in no header.
    """

    message: str
    code: str | None = None
    codes: frozenset[str] = frozenset()
    nested: frozenset[str] = frozenset()
    wait: str | None = None

    @classmethod
    def of(cls, body: object) -> "ErrorBody":
        """Reads `{"error": {…}}`, `{"error": "…"}`, `{"detail": …}`, `[{"error": …}]`, HTML, text or nothing.

        The client takes the value of `error` out of an object, so an inner object or a plain text arrives here as
        well.
        """
        codes: set[str] = set()
        wait: str | None = None
        while True:  # unpacked level by level: a body may be nested deeper than the stack is
            if isinstance(body, Mapping):
                codes.update(_codes(body))
                wait = next(
                    (text for each in _details(body) if (text := _text(each.get("retryDelay")))), wait
                )
            match body:
                case (
                    [Mapping() as body, *_]
                    | {"error": (Mapping() | str()) as body}
                    | {"detail": Mapping() as body}
                ):
                    continue
            break
        message, code = _said(body)
        return cls(message, code, frozenset(codes), _nested_codes(message), wait)


def _said(body: object) -> tuple[str, str | None]:
    match body:
        case {"detail": [*problems]}:
            return "; ".join(_validation_problem(problem) for problem in problems), None
        case {"detail": str(text)}:
            return text, None
        case {**fields}:
            code = fields.get("code") or fields.get("type")
            return str(fields.get("message") or ""), str(code) if code is not None else None
        case str(text):
            return _without_markup(text), None
        case _:
            return "", None


def _codes(body: Mapping[Any, Any]) -> Iterator[str]:
    """The codes of one level, and those of its details."""
    for level in (body, *_details(body)):
        for name in CODE_FIELDS:
            if (text := _text(level.get(name))) is not None:
                yield text.casefold()


def _details(body: Mapping[Any, Any]) -> list[Mapping[Any, Any]]:
    details = body.get("details")
    inner = islice(details, MOST_DETAILS) if isinstance(details, list) else ()
    return [detail for detail in inner if isinstance(detail, Mapping)]


def _text(value: object) -> str | None:
    """A word or a number as text; None for anything else, and for what is too long to be a code."""
    return text if isinstance(value, str | int) and len(text := str(value)) <= CODE_CHARS else None


def _nested_codes(message: str) -> frozenset[str]:
    """The codes of a JSON object inside the message."""
    start = message.find("{")
    if start < 0 or len(message) > NESTED_CHARS:
        return frozenset()
    try:
        body, _ = json.JSONDecoder().raw_decode(message, start)
    except (ValueError, RecursionError):
        return frozenset()
    found: set[str] = set()
    while isinstance(body, Mapping):
        found.update(_codes(body))
        body = body.get("error")
    return frozenset(found)


def _validation_problem(problem: Any) -> str:
    """The place and the message of a problem that a validating server found, without the rejected value: our text."""
    if not isinstance(problem, Mapping):
        return str(problem)
    match problem.get("loc"):
        case [*parts]:
            where = ".".join(map(str, parts))
        case other:
            where = str(other)
    return f"{where}: {problem.get('msg', '')}"


def _without_markup(text: str) -> str:
    """The words of an HTML page; other text stays as it is."""
    if "<" in text and re.search(r"<\s*(!doctype|html|head|body|h1|title)\b", text, re.IGNORECASE):
        text = re.sub(r"(?is)<(script|style)\b.*?</\1\s*>", " ", text)
        text = re.sub(r"<[^>]*>", " ", text)
    return " ".join(text.split())

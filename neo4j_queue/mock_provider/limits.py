"""The limits that the server enforces, and what it says about them in its headers."""

from collections import deque
from dataclasses import dataclass

from neo4j_queue.mock_provider.journal import Request, tokens_of
from neo4j_queue.mock_provider.replies import Reply, error


@dataclass(frozen=True, slots=True)
class Limits:
    """What the server refuses: 400 for what a request holds, 429 for how many come in a sliding interval."""

    max_inputs: int | None = None
    max_input_tokens: int | None = None
    max_request_tokens: int | None = None
    requests_per_interval: int | None = None
    tokens_per_interval: int | None = None
    interval_s: float = 60.0

    @property
    def of_rate(self) -> bool:
        """Is there any limit per interval?"""
        return self.requests_per_interval is not None or self.tokens_per_interval is not None


# What the provider itself documents for one request.
OPENAI_LIMITS = Limits(max_inputs=2_048, max_input_tokens=8_192, max_request_tokens=300_000)


def over_size(request: Request, limits: Limits) -> Reply | None:
    """The refusal of a request that holds too much, or an empty input; None when its size is right."""
    if not request.inputs or any(not text for text in request.inputs):
        return error(400, message="input cannot be an empty string", type="invalid_request_error")
    if limits.max_inputs is not None and len(request.inputs) > limits.max_inputs:
        return error(400, message=f"at most {limits.max_inputs} inputs", type="invalid_request_error")
    longest = max(tokens_of(text) for text in request.inputs)
    if limits.max_input_tokens is not None and longest > limits.max_input_tokens:
        return error(400, message=f"maximum context length is {limits.max_input_tokens} tokens")
    if limits.max_request_tokens is not None and request.tokens > limits.max_request_tokens:
        return error(400, message=f"maximum request size is {limits.max_request_tokens} tokens per request")
    return None


class SlidingWindow:
    """The requests that were granted in the last interval. A refused one counts nothing."""

    def __init__(self) -> None:
        self._granted: deque[tuple[float, int]] = deque()
        self._tokens = 0

    def wait_s(self, at: float, tokens: int, limits: Limits) -> float | None:
        """Grants a request of so many tokens (None), or says how long to wait until there is room for it."""
        self._forget(at - limits.interval_s)
        if self._takes(len(self._granted), self._tokens, tokens, limits):
            self._granted.append((at, tokens))
            self._tokens += tokens
            return None
        count, spent = len(self._granted), self._tokens
        for granted_at, granted_tokens in self._granted:
            count, spent = count - 1, spent - granted_tokens
            if self._takes(count, spent, tokens, limits):
                return granted_at - (at - limits.interval_s)
        # It would not even fit into an empty window.
        return limits.interval_s

    def headers(self, at: float, limits: Limits) -> dict[str, str]:
        """`x-ratelimit-*` as OpenAI sends them; `reset` is the time until the whole budget is there again."""
        since = at - limits.interval_s
        self._forget(since)
        reset = duration(self._granted[-1][0] - since) if self._granted else duration(0.0)
        headers: dict[str, str] = {}
        for what, limit, spent in (
            ("requests", limits.requests_per_interval, len(self._granted)),
            ("tokens", limits.tokens_per_interval, self._tokens),
        ):
            if limit is not None:
                headers[f"x-ratelimit-limit-{what}"] = str(limit)
                headers[f"x-ratelimit-remaining-{what}"] = str(max(0, limit - spent))
                headers[f"x-ratelimit-reset-{what}"] = reset
        return headers

    @staticmethod
    def _takes(count: int, spent: int, tokens: int, limits: Limits) -> bool:
        if limits.requests_per_interval is not None and count >= limits.requests_per_interval:
            return False
        return limits.tokens_per_interval is None or spent + tokens <= limits.tokens_per_interval

    def _forget(self, until: float) -> None:
        while self._granted and self._granted[0][0] <= until:
            self._tokens -= self._granted.popleft()[1]


def duration(seconds: float) -> str:
    """A time as OpenAI's headers write it: `120ms`, `1.5s`, `6m0s`."""
    milliseconds = max(0, round(seconds * 1000))
    if milliseconds < 1000:
        return f"{milliseconds}ms"
    minutes, milliseconds = divmod(milliseconds, 60_000)
    return (f"{minutes}m" if minutes else "") + f"{milliseconds / 1000:g}s"

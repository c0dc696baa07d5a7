"""What can go wrong, and what that means for the jobs concerned.

`classify` turns any exception into a `Fault`: the category that operators see, the kind that tells the
pipeline what to do, and the facts that are stored on the job. A rate limit is no verdict about a text, a
wrong key is the configuration's fault and not the jobs', an error that nobody foresaw is permanent and
carries its class name.
"""

import re
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from neo4j import exceptions as neo4j_errors

from neo4j_queue.errors.errors import (
    EntityNotFound,
    InvalidAnswer,
    SettingsError,
    TemporarilyUnavailable,
    UnembeddableText,
    WrongWidth,
)
from neo4j_queue.errors.rate_headers import RateHeaders, requested_wait_s
from neo4j_queue.errors.redact import Redactor

# Stored on a job node and printed in one log line: long enough for every message of a provider, short enough
# that an HTML page of a proxy does not bloat ten thousand nodes.
MESSAGE_CHARS = 2_000
# The end of a stack names the line that raised; a chained exception of the client takes about 6,000
# characters.
STACK_CHARS = 8_000


class ErrorCategory(StrEnum):
    """What operators filter by; `error_category` of a job."""

    TRANSIENT = "TRANSIENT"
    PERMANENT = "PERMANENT"
    CRITICAL = "CRITICAL"


class FaultKind(StrEnum):
    """What the pipeline does about a fault."""

    ITEM = "item"  # a verdict about this text alone: the job fails for good
    REQUEST = "request"  # the request was refused: one of its texts may be to blame, bisect
    OUTAGE = "outage"  # the provider did not do its work: an attempt is counted, the breaker counts too
    RATE_LIMIT = "rate_limit"  # too fast: release, charge nothing, all workers pause
    QUOTA = "quota"  # no money left: release, charge nothing, long pause with a probe
    CONFIGURATION = "configuration"  # key, address, model or width is wrong: release and halt
    ANSWER = "answer"  # success without usable vectors: an attempt is counted
    STORE = "store"  # Neo4j is busy or away, the driver's retries did not help: release, charge nothing, a short rest
    STORE_BROKEN = "store_broken"  # Neo4j reports damage of its own: release and halt the queue
    # Nobody foresaw it: permanent, with the class name. One of a statement on the graph is narrowed down first
    # (`pipeline/graph_calls.py`), so that it is a verdict only about whom it is to blame on.
    UNKNOWN = "unknown"


_CATEGORY = {
    FaultKind.ITEM: ErrorCategory.PERMANENT,
    FaultKind.REQUEST: ErrorCategory.PERMANENT,
    FaultKind.OUTAGE: ErrorCategory.TRANSIENT,
    FaultKind.RATE_LIMIT: ErrorCategory.TRANSIENT,
    FaultKind.QUOTA: ErrorCategory.TRANSIENT,
    FaultKind.CONFIGURATION: ErrorCategory.CRITICAL,
    FaultKind.ANSWER: ErrorCategory.TRANSIENT,
    FaultKind.STORE: ErrorCategory.TRANSIENT,
    FaultKind.STORE_BROKEN: ErrorCategory.CRITICAL,
    FaultKind.UNKNOWN: ErrorCategory.PERMANENT,
}


@dataclass(frozen=True, slots=True)
class Fault:
    """A classified error: safe to store and to log, for it holds neither keys nor texts.

    `error_type` is the exception's class name, `status` the HTTP status, `retry_after_s` the wait that the
    provider asked for (bounded, see `retry.requested_wait_s`), `stack` the bounded traceback, `rate` what the answer
    said of the rate limits.
    """

    category: ErrorCategory
    kind: FaultKind
    error_type: str
    message: str
    status: int | None = None
    request_id: str | None = None
    retry_after_s: float | None = None
    stack: str | None = None
    rate: RateHeaders | None = None

    def as_outage(self) -> "Fault":
        """The same, met by everybody: whoever it came from is at fault, and no text or entity."""
        return replace(self, category=ErrorCategory.TRANSIENT, kind=FaultKind.OUTAGE)

    def as_verdict(self) -> "Fault":
        """The same, met by one entity alone while others passed: its job fails for good."""
        return replace(self, category=ErrorCategory.PERMANENT, kind=FaultKind.ITEM)


def classify(exc: BaseException) -> Fault:
    """What `exc` means. Total: it answers for any exception and raises nothing.

    Messages and stacks are redacted by what the failed request itself carried (its key and its texts) and
    truncated to `MESSAGE_CHARS` and `STACK_CHARS`.
    """
    redactor = Redactor.for_exception(exc)
    headers = _headers(exc)
    kind = _kind(exc)
    return Fault(
        category=_CATEGORY[kind],
        kind=kind,
        error_type=type(exc).__name__,
        message=redactor.clean(_message(exc), MESSAGE_CHARS),
        status=_status(exc),
        request_id=getattr(exc, "request_id", None) or headers.get("x-request-id"),
        retry_after_s=requested_wait_s(headers, limited=kind in _LIMITED) if kind in _WAITABLE else None,
        stack=redactor.clean_stack("".join(traceback.format_exception(exc)), STACK_CHARS),
        rate=RateHeaders.of(headers),
    )


# Kinds for which a provider's wish to wait means something: 503 carries Retry-After as well as 429.
_LIMITED = frozenset({FaultKind.RATE_LIMIT, FaultKind.QUOTA})
_WAITABLE = _LIMITED | {FaultKind.OUTAGE}


def _kind(exc: BaseException) -> FaultKind:
    match exc:
        case UnembeddableText() | EntityNotFound():
            return FaultKind.ITEM
        case WrongWidth() | SettingsError():
            return FaultKind.CONFIGURATION
        case InvalidAnswer():
            return FaultKind.ANSWER
        case TemporarilyUnavailable():
            return FaultKind.STORE
        case neo4j_errors.Neo4jError() | neo4j_errors.DriverError():
            return _store_kind(exc)
        case UnicodeError():
            # A lone surrogate cannot be sent at all. The whole request failed, but only one text is to blame.
            return FaultKind.REQUEST
        case _ if _is_from(exc, "openai"):
            return _provider_kind(exc)
        case _ if _is_from(exc, "httpx2"):
            return _transport_kind(exc)
        case ConnectionError() | TimeoutError():
            return FaultKind.OUTAGE
        case _:
            return FaultKind.UNKNOWN


def _is_from(exc: BaseException, package: str) -> bool:
    """Whether the exception's class comes from a package; by name, so that nothing heavy is imported."""
    return any(cls.__module__.partition(".")[0] == package for cls in type(exc).__mro__)


# --- Neo4j -----------------------------------------------------------------------------------------------

# Client errors that every statement of every job would meet: halting is kinder than a million dead letters.
_STORE_CONFIGURATION = (
    "Neo.ClientError.Security.",
    "Neo.ClientError.Database.",
    "Neo.ClientError.Procedure.ProcedureNotFound",
    "Neo.ClientError.Statement.SyntaxError",
    "Neo.ClientError.Statement.UnsupportedAdministrationCommand",
)
# Timed out, terminated by a shutdown, marked for termination: the work was undone and may be repeated.
_STORE_UNDONE = "Neo.ClientError.Transaction."


def _store_kind(exc: neo4j_errors.Neo4jError | neo4j_errors.DriverError) -> FaultKind:
    # By class first: SessionExpired and ServiceUnavailable have no code.
    transient = (
        neo4j_errors.TransientError,
        neo4j_errors.ServiceUnavailable,  # IncompleteCommit too, which is_retryable() denies
        neo4j_errors.SessionExpired,
        neo4j_errors.ConnectionPoolError,
    )
    if isinstance(exc, transient) or exc.is_retryable():
        return FaultKind.STORE
    if isinstance(exc, neo4j_errors.ConfigurationError | neo4j_errors.AuthError | neo4j_errors.Forbidden):
        return FaultKind.CONFIGURATION
    if isinstance(exc, neo4j_errors.DriverError):
        return FaultKind.UNKNOWN
    code = exc.code or ""
    if isinstance(exc, neo4j_errors.DatabaseError) or code.startswith("Neo.DatabaseError."):
        return FaultKind.STORE_BROKEN
    if code.startswith(_STORE_CONFIGURATION):
        return FaultKind.CONFIGURATION
    if code.startswith(_STORE_UNDONE):
        return FaultKind.STORE
    return FaultKind.UNKNOWN


# --- Provider --------------------------------------------------------------------------------------------

_REQUEST_STATUS = frozenset({400, 413, 422})
# 408 request timeout, 409 lock conflict, 425 too early: the same request may pass a moment later.
_RETRY_STATUS = frozenset({408, 409, 425})
# Key, permission, address or model; 405, 407 and 410 are the same fault by another number: the base URL names
# something that is no embeddings endpoint, a proxy wants a password, the model was withdrawn.
_CONFIGURATION_STATUS = frozenset({401, 403, 404, 405, 407, 410})
_QUOTA_CODES = frozenset({"insufficient_quota", "billing_hard_limit_reached", "billing_not_active"})


def _provider_kind(exc: BaseException) -> FaultKind:
    import openai  # loaded already: the exception comes from it

    match exc:
        case openai.APIResponseValidationError():
            return FaultKind.ANSWER
        case openai.APIStatusError():
            return _status_kind(exc.status_code, ErrorBody.of(exc.body))
        case openai.APIConnectionError():
            # A wrong scheme or host in the base URL comes as a connection error too; its cause tells.
            cause = exc.__cause__
            return (
                _transport_kind(cause)
                if cause is not None and _is_from(cause, "httpx2")
                else FaultKind.OUTAGE
            )
        case openai.APIError():
            return FaultKind.UNKNOWN
        case openai.OpenAIError():
            return FaultKind.CONFIGURATION  # raised before any request: no key, unusable options
        case _:
            return FaultKind.UNKNOWN


def _status_kind(status: int, body: "ErrorBody") -> FaultKind:
    if status == 402 or (status < 500 and body.code in _QUOTA_CODES):
        return FaultKind.QUOTA
    if status == 429:
        # "Request too large … Limit 1000, Requested 2000" comes as a 429, but waiting never helps: split it.
        return FaultKind.REQUEST if body.message.startswith("Request too large") else FaultKind.RATE_LIMIT
    if status in _REQUEST_STATUS:
        return FaultKind.REQUEST
    if status >= 500 or status in _RETRY_STATUS:
        return FaultKind.OUTAGE
    if status in _CONFIGURATION_STATUS or status < 400:
        return FaultKind.CONFIGURATION  # below 400: a redirection that leads nowhere
    return FaultKind.UNKNOWN


def _transport_kind(exc: BaseException) -> FaultKind:
    import httpx2  # loaded already: the exception comes from it

    if isinstance(exc, httpx2.UnsupportedProtocol | httpx2.InvalidURL | httpx2.LocalProtocolError):
        return FaultKind.CONFIGURATION  # a base URL without http://, a key with a line break in it
    return FaultKind.OUTAGE if isinstance(exc, httpx2.RequestError) else FaultKind.UNKNOWN


@dataclass(frozen=True, slots=True)
class ErrorBody:
    """The message and the code in an error body, whatever its shape."""

    message: str
    code: str | None = None

    @classmethod
    def of(cls, body: object) -> "ErrorBody":
        """Reads `{"error": {…}}`, `{"error": "…"}`, `{"detail": …}`, `[{"error": …}]`, HTML, text, nothing.

        The client has already taken the value of `error` out of an object, so an inner object or a bare text
        arrive here as well.
        """
        while True:  # unpacked level by level: a body may be nested deeper than the stack is
            match body:
                case (
                    [Mapping() as body, *_]
                    | {"error": (Mapping() | str()) as body}
                    | {"detail": Mapping() as body}
                ):
                    continue
            break
        match body:
            case {"detail": [*problems]}:
                return cls("; ".join(_validation_problem(problem) for problem in problems))
            case {"detail": str(text)}:
                return cls(text)
            case {**fields}:
                code = fields.get("code") or fields.get("type")
                return cls(str(fields.get("message") or ""), str(code) if code is not None else None)
            case str(text):
                return cls(_without_markup(text))
            case _:
                return cls("")


def _validation_problem(problem: Any) -> str:
    """One problem of a validating server: where and what, without the rejected value, which is our text."""
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


def _message(exc: BaseException) -> str:
    if not _is_from(exc, "openai"):
        return str(exc) or type(exc).__name__
    status = getattr(exc, "status_code", None)
    if status is None:
        cause = f" ({type(exc.__cause__).__name__}: {exc.__cause__})" if exc.__cause__ is not None else ""
        return f"{exc}{cause}"
    body = ErrorBody.of(getattr(exc, "body", None))
    said = f"HTTP {status}: {body.message or 'no message in the body'}"
    return f"{said} [{body.code}]" if body.code else said


def _headers(exc: BaseException) -> Mapping[str, str]:
    headers = getattr(getattr(exc, "response", None), "headers", None)
    return headers if isinstance(headers, Mapping) else {}


def _status(exc: BaseException) -> int | None:
    status = getattr(exc, "status_code", getattr(exc, "status", None))
    return status if isinstance(status, int) else None

"""What can go wrong, and what that means for the jobs concerned.

`classify` turns any exception into a `Fault`: the category that operators see, the kind that tells the
pipeline what to do, and the facts that are stored on the job. A rate limit is no verdict about a text, a
wrong key is the configuration's fault and not the jobs', and an unknown error is permanent and carries its
class name.
"""

import traceback
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from neo4j import exceptions as neo4j_errors

from neo4j_queue.errors.errors import (
    DialectError,
    EntityNotFound,
    InvalidAnswer,
    SettingsError,
    TemporarilyUnavailable,
    UnembeddableText,
    WrongWidth,
)
from neo4j_queue.errors.provider_body import ErrorBody
from neo4j_queue.errors.provider_words import Quoted, means_no_money, means_wrong_key
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
    # Success of a shape that no text explains. As ANSWER, until a harmless text gets the same: then it is the
    # configuration's (`Fault.as_configuration`).
    DIALECT = "dialect"
    STORE = "store"  # Neo4j is busy or away after the driver's retries: release, charge nothing, a short rest
    STORE_BROKEN = "store_broken"  # Neo4j reports damage of its own: release and halt
    # An error of no other kind: permanent, with the class name. If a statement on the graph met it, the statement is
    # repeated over parts of the batch first (`pipeline.graph_calls`): only the entities to blame fail.
    UNKNOWN = "unknown"


_CATEGORY = {
    FaultKind.ITEM: ErrorCategory.PERMANENT,
    FaultKind.REQUEST: ErrorCategory.PERMANENT,
    FaultKind.OUTAGE: ErrorCategory.TRANSIENT,
    FaultKind.RATE_LIMIT: ErrorCategory.TRANSIENT,
    FaultKind.QUOTA: ErrorCategory.TRANSIENT,
    FaultKind.CONFIGURATION: ErrorCategory.CRITICAL,
    FaultKind.ANSWER: ErrorCategory.TRANSIENT,
    FaultKind.DIALECT: ErrorCategory.TRANSIENT,
    FaultKind.STORE: ErrorCategory.TRANSIENT,
    FaultKind.STORE_BROKEN: ErrorCategory.CRITICAL,
    FaultKind.UNKNOWN: ErrorCategory.PERMANENT,
}


@dataclass(frozen=True, slots=True)
class Fault:
    """A classified error. It holds neither keys nor texts, so it may be stored and logged.

    `error_type` is the exception's class name, `status` the HTTP status, `retry_after_s` the wait that the
    provider asked for (bounded, see `rate_headers.requested_wait_s`), `stack` the bounded traceback, `rate` the rate
    limits in the headers of the answer.
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
        """The same fault as trouble of the provider or the graph, met by every text or entity."""
        return replace(self, category=ErrorCategory.TRANSIENT, kind=FaultKind.OUTAGE)

    def as_configuration(self) -> "Fault":
        """The same fault, met by a harmless text too: the configuration's, and the queue halts."""
        return replace(self, category=ErrorCategory.CRITICAL, kind=FaultKind.CONFIGURATION)

    def as_verdict(self) -> "Fault":
        """The same fault as a verdict about one entity, while others passed: its job fails for good."""
        return replace(self, category=ErrorCategory.PERMANENT, kind=FaultKind.ITEM)


def classify(exc: BaseException) -> Fault:
    """The fault that `exc` means. Answers for any exception, and raises nothing.

    Messages and stacks are redacted by what the failed request itself carried (its key and its texts) and
    truncated to `MESSAGE_CHARS` and `STACK_CHARS`.
    """
    redactor = Redactor.for_exception(exc)
    headers = _headers(exc)
    kind = _kind(exc, redactor.quotes)
    return Fault(
        category=_CATEGORY[kind],
        kind=kind,
        error_type=type(exc).__name__,
        message=redactor.clean(_message(exc), MESSAGE_CHARS),
        status=_status(exc),
        request_id=getattr(exc, "request_id", None) or headers.get("x-request-id"),
        retry_after_s=_wait_s(exc, headers, limited=kind in _LIMITED) if kind in _WAITABLE else None,
        stack=redactor.clean_stack("".join(traceback.format_exception(exc)), STACK_CHARS),
        rate=RateHeaders.of(headers),
    )


# Kinds whose answers may ask for a wait: 503 carries Retry-After as well as 429.
_LIMITED = frozenset({FaultKind.RATE_LIMIT, FaultKind.QUOTA})
_WAITABLE = _LIMITED | {FaultKind.OUTAGE}


def _kind(exc: BaseException, quoted: Quoted) -> FaultKind:
    match exc:
        case UnembeddableText() | EntityNotFound():
            return FaultKind.ITEM
        case WrongWidth() | SettingsError():
            return FaultKind.CONFIGURATION
        case DialectError():
            return FaultKind.DIALECT
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
            return _provider_kind(exc, quoted)
        case _ if _is_from(exc, "httpx2"):
            return _transport_kind(exc)
        case ConnectionError() | TimeoutError():
            return FaultKind.OUTAGE
        case _:
            return FaultKind.UNKNOWN


def _is_from(exc: BaseException, package: str) -> bool:
    """True if the exception's class comes from the package; told by name, so that nothing heavy is imported."""
    return any(cls.__module__.partition(".")[0] == package for cls in type(exc).__mro__)


# --- Neo4j -----------------------------------------------------------------------------------------------

# Client errors that every statement of every job would meet: a halt, not a million dead letters.
_STORE_CONFIGURATION = (
    "Neo.ClientError.Security.",
    "Neo.ClientError.Database.",
    "Neo.ClientError.Procedure.ProcedureNotFound",
    "Neo.ClientError.Statement.SyntaxError",
    "Neo.ClientError.Statement.UnsupportedAdministrationCommand",
)
# The server takes no writes: a standby, a full disk, a person's hand. It takes them again without a change here.
_STORE_READ_ONLY = (
    "Neo.ClientError.General.ForbiddenOnReadOnlyDatabase",
    "Neo.ClientError.General.WriteOnReadOnlyAccessDatabase",
    "Neo.ClientError.Statement.AccessMode",
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
    if code.startswith(_STORE_READ_ONLY):
        return FaultKind.STORE
    if isinstance(exc, neo4j_errors.DatabaseError) or code.startswith("Neo.DatabaseError."):
        return FaultKind.STORE_BROKEN
    if code.startswith(_STORE_CONFIGURATION):
        return FaultKind.CONFIGURATION
    if code.startswith(_STORE_UNDONE):
        return FaultKind.STORE
    return FaultKind.UNKNOWN


# --- Provider --------------------------------------------------------------------------------------------

# The same request may pass a moment later: 408 request timeout, 409 conflict, 421 the connection led to another server,
# 423 locked, 424 a dependency failed (TEI while its backend is down), 425 too early, 449 retry with, 460 and 499 the
# connection was closed in between (load balancers, nginx).
_RETRY_STATUS = frozenset({408, 409, 421, 423, 424, 425, 449, 460, 499})
# Key, permission, address or model. The same fault by another number: 405 and 426 (the base URL names something that is
# no embeddings endpoint), 407 (a proxy wants a password), 410 (the model was withdrawn), 495 and 496 (nginx: the
# client's certificate), 498 (an invalid token).
_CONFIGURATION_STATUS = frozenset({401, 403, 404, 405, 407, 410, 426, 495, 496, 498})
# 420: "enhance your calm", the old number of 429.
_RATE_STATUS = frozenset({420, 429})
# The model has no such name there, said with a 400.
_MODEL_CODES = frozenset({"model_not_found", "model_not_exist", "modelnotfound"})


def _provider_kind(exc: BaseException, quoted: Quoted) -> FaultKind:
    import openai  # loaded already: the exception comes from it

    match exc:
        case openai.APIResponseValidationError():
            return FaultKind.ANSWER
        case openai.APIStatusError():
            return _status_kind(exc.status_code, ErrorBody.of(exc.body), quoted)
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


def _status_kind(status: int, body: ErrorBody, quoted: Quoted) -> FaultKind:
    if status >= 500:
        return FaultKind.OUTAGE
    if status == 402 or (status >= 400 and means_no_money(body, quoted)):
        return FaultKind.QUOTA
    if status in _RATE_STATUS:
        # "Request too large … Limit 1000, Requested 2000" comes as a 429, but waiting never helps: split it.
        return FaultKind.REQUEST if body.message.startswith("Request too large") else FaultKind.RATE_LIMIT
    if status in _RETRY_STATUS:
        return FaultKind.OUTAGE
    if status < 400 or status in _CONFIGURATION_STATUS:
        return FaultKind.CONFIGURATION  # below 400: a redirection that leads nowhere
    if body.codes & _MODEL_CODES or means_wrong_key(body, quoted):
        return FaultKind.CONFIGURATION
    # 400, 413, 422 and every status that is not known here: a text may be to blame, and bisecting tells.
    return FaultKind.REQUEST


def _transport_kind(exc: BaseException) -> FaultKind:
    import httpx2  # loaded already: the exception comes from it

    if isinstance(exc, httpx2.UnsupportedProtocol | httpx2.InvalidURL | httpx2.LocalProtocolError):
        return FaultKind.CONFIGURATION  # a base URL without http://, a key with a line break in it
    return FaultKind.OUTAGE if isinstance(exc, httpx2.RequestError) else FaultKind.UNKNOWN


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


def _wait_s(exc: BaseException, headers: Mapping[str, str], *, limited: bool) -> float | None:
    """The wait that the answer asks for: in its headers, else in its body."""
    wait = requested_wait_s(headers, limited=limited)
    said = None if wait is not None else ErrorBody.of(getattr(exc, "body", None)).wait
    return wait if said is None else requested_wait_s({"retry-after": said})


def _headers(exc: BaseException) -> Mapping[str, str]:
    headers = getattr(getattr(exc, "response", None), "headers", None)
    return headers if isinstance(headers, Mapping) else {}


def _status(exc: BaseException) -> int | None:
    status = getattr(exc, "status_code", getattr(exc, "status", None))
    return status if isinstance(status, int) else None

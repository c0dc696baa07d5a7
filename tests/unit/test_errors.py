"""What an exception means for the jobs concerned (errors of the provider: test_embedders_openai.py)."""

import functools
import json
import subprocess
import sys
from dataclasses import FrozenInstanceError
from typing import Any

import openai
import pytest
from hypothesis import given
from hypothesis import strategies as st
from neo4j import exceptions as neo4j_errors
from neo4j.exceptions import Neo4jError

from neo4j_queue.errors import (
    DialectError,
    EntityNotFound,
    ErrorCategory,
    FaultKind,
    InvalidAnswer,
    Neo4jQueueError,
    SettingsError,
    TemporarilyUnavailable,
    UnembeddableText,
    WrongWidth,
    classify,
)
from neo4j_queue.errors.classify import MESSAGE_CHARS, STACK_CHARS
from neo4j_queue.errors.provider_body import ErrorBody

T, P, C = ErrorCategory.TRANSIENT, ErrorCategory.PERMANENT, ErrorCategory.CRITICAL


def from_server(code: str) -> Neo4jError:
    """The exception that the driver makes of a server's failure."""
    return Neo4jError._hydrate_neo4j(code=code, message="the reason")


@pytest.mark.parametrize(
    ("code", "kind", "category"),
    [
        ("Neo.TransientError.Transaction.DeadlockDetected", FaultKind.STORE, T),
        ("Neo.TransientError.Transaction.LockAcquisitionTimeout", FaultKind.STORE, T),
        ("Neo.TransientError.General.DatabaseUnavailable", FaultKind.STORE, T),
        ("Neo.TransientError.General.MemoryPoolOutOfMemoryError", FaultKind.STORE, T),
        ("Neo.ClientError.Cluster.NotALeader", FaultKind.STORE, T),
        ("Neo.ClientError.Security.AuthorizationExpired", FaultKind.STORE, T),
        ("Neo.ClientError.Transaction.TransactionTimedOut", FaultKind.STORE, T),
        ("Neo.TransientError.Transaction.Terminated", FaultKind.STORE, T),
        ("Neo.DatabaseError.General.UnknownError", FaultKind.STORE_BROKEN, C),
        ("Neo.DatabaseError.Schema.IndexCreationFailed", FaultKind.STORE_BROKEN, C),
        ("Neo.ClientError.Security.Unauthorized", FaultKind.CONFIGURATION, C),
        ("Neo.ClientError.Security.Forbidden", FaultKind.CONFIGURATION, C),
        ("Neo.ClientError.Database.DatabaseNotFound", FaultKind.CONFIGURATION, C),
        ("Neo.ClientError.Procedure.ProcedureNotFound", FaultKind.CONFIGURATION, C),
        ("Neo.ClientError.Statement.SyntaxError", FaultKind.CONFIGURATION, C),
        ("Neo.ClientError.Schema.ConstraintValidationFailed", FaultKind.UNKNOWN, P),
        ("Neo.ClientError.Statement.TypeError", FaultKind.UNKNOWN, P),
    ],
)
def test_an_error_of_the_database_server_by_its_code(
    code: str, kind: FaultKind, category: ErrorCategory
) -> None:
    exc = from_server(code)
    fault = classify(exc)

    assert (fault.kind, fault.category) == (kind, category)
    assert fault.error_type == type(exc).__name__
    assert "the reason" in fault.message


@pytest.mark.parametrize(
    ("exc", "kind", "category"),
    [
        (neo4j_errors.ServiceUnavailable("gone"), FaultKind.STORE, T),
        (neo4j_errors.SessionExpired("gone"), FaultKind.STORE, T),
        (neo4j_errors.IncompleteCommit("unknown end"), FaultKind.STORE, T),
        (neo4j_errors.ConnectionAcquisitionTimeoutError("pool"), FaultKind.STORE, T),
        (neo4j_errors.ConfigurationError("scheme"), FaultKind.CONFIGURATION, C),
        (neo4j_errors.AuthError("no"), FaultKind.CONFIGURATION, C),
        (neo4j_errors.ResultConsumedError(None, "bug"), FaultKind.UNKNOWN, P),
        (TemporarilyUnavailable("later"), FaultKind.STORE, T),
        (SettingsError(["A: wrong"]), FaultKind.CONFIGURATION, C),
        (EntityNotFound("Ada"), FaultKind.ITEM, P),
        (UnembeddableText("the text is blank"), FaultKind.ITEM, P),
        (InvalidAnswer("short"), FaultKind.ANSWER, T),
        (DialectError("no list"), FaultKind.DIALECT, T),
        (WrongWidth(8, 16), FaultKind.CONFIGURATION, C),
        (openai.OpenAIError("no key"), FaultKind.CONFIGURATION, C),
        (ConnectionResetError("peer"), FaultKind.OUTAGE, T),
        (TimeoutError("late"), FaultKind.OUTAGE, T),
        (ValueError("nobody foresaw it"), FaultKind.UNKNOWN, P),
        (KeyError("x"), FaultKind.UNKNOWN, P),
        (MemoryError(), FaultKind.UNKNOWN, P),
        (Neo4jQueueError("some other"), FaultKind.UNKNOWN, P),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else None,
)
def test_every_other_exception_has_its_meaning(
    exc: Exception, kind: FaultKind, category: ErrorCategory
) -> None:
    fault = classify(exc)

    assert (fault.kind, fault.category) == (kind, category)
    assert fault.error_type == type(exc).__name__
    assert fault.message
    assert fault.retry_after_s is None


def test_exit_codes_are_those_of_the_command_line() -> None:
    codes = {cls.__name__: cls.exit_code for cls in (EntityNotFound, TemporarilyUnavailable, SettingsError)}

    assert codes == {"EntityNotFound": 1, "TemporarilyUnavailable": 75, "SettingsError": 78}


def test_messages_of_our_own_errors() -> None:
    assert str(EntityNotFound("Ada")) == "Entity not found: Ada"
    assert str(SettingsError(["A: wrong", "B: wrong"])) == "A: wrong\nB: wrong"


def test_a_too_large_request_is_split_though_it_comes_as_a_rate_limit() -> None:
    """Waiting would never help: the limit is below the size of the request."""
    body = {"message": "Request too large for m in organization o: Limit 1000, Requested 2000", "code": "x"}

    assert classify(_status_error(429, body)).kind is FaultKind.REQUEST
    assert classify(_status_error(429, body | {"message": "Rate limit reached"})).kind is FaultKind.RATE_LIMIT


def _status_error(status: int, body: object) -> openai.APIStatusError:
    import httpx2

    request = httpx2.Request("POST", "http://provider.invalid/v1/embeddings", json={"input": ["text"]})
    return openai.APIStatusError("m", response=httpx2.Response(status, request=request), body=body)


def test_the_stack_names_the_line_and_is_bounded() -> None:
    def deep(n: int) -> None:
        if n == 0:
            raise ValueError("x" * 50_000)
        deep(n - 1)

    with pytest.raises(ValueError, match="x") as raised:
        deep(300)
    fault = classify(raised.value)

    assert len(fault.message) == MESSAGE_CHARS
    assert fault.stack is not None
    assert len(fault.stack) <= STACK_CHARS


def test_the_stack_names_where_it_was_raised() -> None:
    with pytest.raises(ZeroDivisionError) as raised:
        _ = 1 / 0

    assert "test_the_stack_names_where_it_was_raised" in (classify(raised.value).stack or "")


def test_a_fault_cannot_be_changed() -> None:
    fault = classify(ValueError("x"))

    with pytest.raises(FrozenInstanceError):
        fault.message = "y"  # type: ignore[misc]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["error", "detail", "message", "code", "type", "loc", "msg"])
            | st.text(max_size=5),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


DEEP: dict[str, Any] = functools.reduce(lambda inner, _: {"error": inner}, range(5_000), {"message": "deep"})


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"detail": [{"loc": None, "msg": "bad"}]}, "HTTP 422: None: bad"),
        ({"detail": [{"loc": 7, "msg": "bad"}]}, "HTTP 422: 7: bad"),
        (DEEP, "HTTP 422: deep"),
    ],
    ids=["no place", "a number for a place", "nested deeper than the stack"],
)
def test_a_body_of_a_strange_shape_still_gives_its_message(body: Any, message: str) -> None:
    assert classify(_status_error(422, body)).message == message


@given(body=json_values, status=st.integers(300, 599))
def test_no_error_body_breaks_the_classification(body: object, status: int) -> None:
    fault = classify(_status_error(status, body))

    assert fault.status == status
    json.dumps(fault.message)


@given(body=json_values)
def test_a_body_always_gives_a_message_that_is_text(body: object) -> None:
    read = ErrorBody.of(body)

    assert isinstance(read.message, str)
    assert read.code is None or isinstance(read.code, str)


def test_classifying_loads_no_client_library() -> None:
    """The command line must not pay seconds for a provider that it does not use."""
    script = (
        "import sys; from neo4j_queue.errors.classify import classify; classify(ValueError('x'));"
        "import neo4j_queue.embedders;"
        "sys.exit(1 if {'openai', 'httpx2', 'wordllama'} & set(sys.modules) else 0)"
    )

    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0

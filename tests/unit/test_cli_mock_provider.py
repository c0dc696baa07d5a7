"""`neo4j-queue mock-provider` as a process: what it prints, serves and says at its end."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import openai
import pytest

from neo4j_queue.mock_provider import ProviderServer, vector_for

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-m", "neo4j_queue.cli", "mock-provider"]


@contextmanager
def started(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], dict[str, str]]]:
    """The running command, and the settings that it printed (on stderr with `--json`)."""
    process = subprocess.Popen(
        [*COMMAND, "--port", "0", "--latency", "0", *arguments],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        stream = process.stderr if "--json" in arguments else process.stdout
        assert stream is not None
        lines = [stream.readline().strip() for _ in range(5)]
        yield process, dict(line.split("=", 1) for line in lines)
    finally:
        process.kill()
        process.communicate()


def client(settings: dict[str, str]) -> openai.OpenAI:
    return openai.OpenAI(
        api_key=settings["OPENAI_API_KEY"], base_url=settings["OPENAI_BASE_URL"], max_retries=0
    )


def test_it_serves_the_openai_client_and_sums_up_at_ctrl_c() -> None:
    with started("--dimensions", "16") as (process, settings):
        assert settings["EMBEDDING_PROVIDER"] == "openai"
        assert settings["NEO4J_VECTOR_DIMENSIONS"] == "16"
        provider, model = client(settings), settings["OPENAI_EMBEDDING_MODEL"]
        first = provider.embeddings.create(input=["a", "b"], model=model, encoding_format="float")
        again = provider.embeddings.create(input=["a"], model=model, encoding_format="float")
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)

    assert [each.embedding for each in first.data] == [vector_for("a", 16), vector_for("b", 16)]
    assert again.data[0].embedding == first.data[0].embedding
    assert process.returncode == 0, err
    summary = dict(re.split(r"  +", line.strip(), maxsplit=1) for line in out.splitlines()[1:])
    assert summary["requests"] == "2"
    assert summary["inputs"] == "3"
    assert summary["inputs per unique text"] == "1.50"
    assert summary["answered"] == "2"
    assert "0 requests" in err.splitlines()[0]


def test_limits_headers_and_the_summary_as_json() -> None:
    with started("--requests-per-minute", "1", "--max-inputs", "2", "--json") as (process, settings):
        provider = client(settings)
        answer = provider.embeddings.with_raw_response.create(input="a", model="m")
        with pytest.raises(openai.RateLimitError) as limited:
            provider.embeddings.create(input="a", model="m")
        with pytest.raises(openai.BadRequestError):
            provider.embeddings.create(input=["a", "b", "c"], model="m")
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=20)

    assert answer.headers["x-ratelimit-remaining-requests"] == "0"
    assert 0 < float(limited.value.response.headers["retry-after"]) <= 60
    assert process.returncode == 0, err
    summary = json.loads(out)
    assert (summary["requests"], summary["answers"], summary["rate_limited"]) == (3, 1, 1)
    assert (summary["other_errors"], summary["unanswered"], summary["inputs"]) == (1, 0, 5)


def test_without_headers_a_refusal_says_nothing_of_when() -> None:
    with started("--no-headers", "--share-429", "1") as (_, settings):
        with pytest.raises(openai.RateLimitError) as limited:
            client(settings).embeddings.create(input="a", model="m")
        names = {name.lower() for name in limited.value.response.headers}

    assert not {name for name in names if name.startswith(("x-ratelimit", "retry-after"))}


@pytest.mark.parametrize(
    ("fault", "raised", "said"),
    [
        ("wrong-key", openai.AuthenticationError, "Incorrect API key"),
        ("expired-key", openai.BadRequestError, "API key expired"),
        ("quota", openai.RateLimitError, "insufficient_quota"),
        ("budget", openai.BadRequestError, "Budget has been exceeded"),
        ("outage", openai.InternalServerError, "overloaded"),
        ("no-model", openai.NotFoundError, "model_not_found"),
    ],
)
def test_a_fault_befalls_every_request(fault: str, raised: type[openai.APIStatusError], said: str) -> None:
    with started("--fault", fault) as (_, settings), pytest.raises(raised) as caught:
        client(settings).embeddings.create(input="a", model="m", encoding_format="float")

    assert said in str(caught.value.body)


def test_garbage_befalls_every_request() -> None:
    with started("--fault", "garbage") as (_, settings):
        answer = client(settings).embeddings.with_raw_response.create(input="a", model="m")

    assert answer.http_response.text.startswith("<html>")


def test_a_wrong_width_befalls_every_vector() -> None:
    with started("--fault", "wrong-width", "--dimensions", "16") as (_, settings):
        answer = client(settings).embeddings.create(input=["a", "b"], model="m", encoding_format="float")

    assert [len(item.embedding) for item in answer.data] == [8, 8]


def test_a_text_a_field_and_a_key_are_refused() -> None:
    rules = (
        "--refuse-text",
        "Ada",
        "--refuse-field",
        "user",
        "--need-field",
        "input_type",
        "--key",
        "secret",
    )
    with started(*rules) as (_, settings):
        assert settings["OPENAI_API_KEY"] == "secret"
        provider, extra = client(settings), {"input_type": "query"}
        provider.embeddings.create(input="Bob", model="m", extra_body=extra)
        with pytest.raises(openai.BadRequestError):
            provider.embeddings.create(input=["Bob", "Ada Lovelace"], model="m", extra_body=extra)
        with pytest.raises(openai.BadRequestError) as unknown:
            provider.embeddings.create(input="Bob", model="m", user="me", extra_body=extra)
        with pytest.raises(openai.BadRequestError) as missing:
            provider.embeddings.create(input="Bob", model="m")
        with pytest.raises(openai.AuthenticationError):
            client(settings | {"OPENAI_API_KEY": "other"}).embeddings.create(input="Bob", model="m")

    assert "'user' is not supported" in str(unknown.value.body)
    assert "'input_type' parameter is required" in str(missing.value.body)


def test_an_unknown_fault_is_wrong_usage() -> None:
    done = subprocess.run(
        [*COMMAND, "--fault", "fire"],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )

    assert done.returncode == 2
    assert "wrong-width" in done.stderr


def test_a_port_in_use_is_one_line_and_exit_code_75() -> None:
    with ProviderServer() as server:
        done = subprocess.run(
            [*COMMAND, "--port", str(server.port)],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )

    assert (done.returncode, done.stdout) == (75, "")
    (line,) = done.stderr.splitlines()
    assert line == f"neo4j-queue: cannot listen on 127.0.0.1:{server.port}: Address already in use"


def test_shares_above_one_are_wrong_usage() -> None:
    done = subprocess.run(
        [*COMMAND, "--share-500", "0.7", "--share-slow", "0.7"],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )

    assert done.returncode == 2
    assert "at most 1" in done.stderr

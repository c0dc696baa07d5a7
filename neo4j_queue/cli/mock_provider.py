"""`mock-provider`: a provider on this machine that gives invented vectors and misbehaves as much as one likes."""

import sys
import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from neo4j_queue.cli import output

if TYPE_CHECKING:
    from neo4j_queue.mock_provider import Counts, ProviderServer

TEMPORARY = 75
# A terminal's line is renewed this often, a log gets a line this often (when something has happened).
TERMINAL_EVERY_S = 0.5
PLAIN_EVERY_S = 5.0
# A name of its own: invented vectors must never be taken for those of the real model.
MODEL = "mock-provider"
DIMENSIONS = 1536
# Unlike those of the graph (7687), the jobs database (7688) and every server that is known by its port.
PORT = 9099

# No client waits for an answer that long.
LONGEST_S = 3_600


def register(app: typer.Typer) -> None:
    """Adds this module's command."""
    app.command("mock-provider")(mock_provider)


def mock_provider(
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 = any free one.")] = PORT,
    dimensions: Annotated[
        int, typer.Option(min=1, max=4096, help="Width of vectors, where the request asks for none.")
    ] = DIMENSIONS,
    latency: Annotated[float, typer.Option(min=0, max=LONGEST_S, help="Seconds before each answer.")] = 0.05,
    share_429: Annotated[
        float, typer.Option("--share-429", min=0, max=1, help="Share of requests refused with 429.")
    ] = 0.0,
    share_500: Annotated[
        float, typer.Option("--share-500", min=0, max=1, help="Share of requests that fail with 500.")
    ] = 0.0,
    share_silent: Annotated[
        float, typer.Option(min=0, max=1, help="Share of requests that never get an answer.")
    ] = 0.0,
    share_slow: Annotated[
        float, typer.Option(min=0, max=1, help="Share of requests that take --slow seconds.")
    ] = 0.0,
    slow: Annotated[
        float, typer.Option(min=0, max=LONGEST_S, help="Seconds that a slow answer takes.")
    ] = 5.0,
    fault: Annotated[
        str | None, typer.Option(help="What every request gets: see below.", metavar="FAULT")
    ] = None,
    refuse_text: Annotated[
        list[str] | None, typer.Option(help="Refuse requests with these words in a text (400); repeatable.")
    ] = None,
    refuse_field: Annotated[
        list[str] | None, typer.Option(help="Refuse requests with this field (400), as Voyage; repeatable.")
    ] = None,
    need_field: Annotated[
        list[str] | None,
        typer.Option(help="Refuse requests without this field (400), as NVIDIA; repeatable."),
    ] = None,
    key: Annotated[
        str | None, typer.Option(help="The key that is right; any other is refused (401).")
    ] = None,
    seed: Annotated[int, typer.Option(help="The same seed: the same requests go wrong.")] = 0,
    requests_per_minute: Annotated[
        int | None, typer.Option(min=1, help="Answer 429 above, in any sliding minute.")
    ] = None,
    tokens_per_minute: Annotated[
        int | None, typer.Option(min=1, help="Answer 429 above, in any sliding minute.")
    ] = None,
    max_inputs: Annotated[
        int | None, typer.Option(min=0, help="Texts per request, 400 above; 0 = any (default: OpenAI's).")
    ] = None,
    max_input_tokens: Annotated[
        int | None, typer.Option(min=0, help="Tokens of one text, 400 above; 0 = any (default: OpenAI's).")
    ] = None,
    max_request_tokens: Annotated[
        int | None, typer.Option(min=0, help="Tokens per request, 400 above; 0 = any (default: OpenAI's).")
    ] = None,
    headers: Annotated[
        bool,
        typer.Option("--headers/--no-headers", help="Send x-ratelimit-* and Retry-After, as OpenAI does."),
    ] = True,
    json: Annotated[bool, typer.Option("--json", help="The summary as JSON, and nothing else.")] = False,
) -> None:
    """Serve OpenAI's /v1/embeddings with invented vectors until Ctrl-C, to rehearse without a key and without cost.

    Prints the settings that lead to it, then one line that tells what came in, and at the end a summary. Vectors
    have unit length, and a text always gets the same one; they say nothing about meaning. Any key is good without
    --key. Rehearse on a copy of the graph: the vectors are stored there like any others.

    FAULT is one of wrong-key, expired-key, no-model, quota, budget, rate-limit, outage, refusal, garbage, no-index,
    wrong-width, silent. Stop it and start it again without --fault on the same port: that is the repair.

    Exit code 0 after Ctrl-C, 75 when the port is in use.

    \b
    Examples:
      neo4j-queue mock-provider
      neo4j-queue mock-provider --requests-per-minute 600 --latency 0.3
      neo4j-queue mock-provider --share-429 0.02 --share-500 0.05 --share-silent 0.001 --seed 7
      neo4j-queue mock-provider --fault quota
      neo4j-queue mock-provider --refuse-text "Ada Lovelace" --key secret
      neo4j-queue mock-provider --refuse-field encoding_format --need-field input_type
      neo4j-queue mock-provider --no-headers --tokens-per-minute 100000 --max-inputs 100
    """
    from neo4j_queue.interruption import terminable
    from neo4j_queue.mock_provider import FAULTS, OPENAI_LIMITS, Limits, Mishaps, ProviderServer, Rules

    try:
        mishaps = Mishaps(share_429, share_500, share_silent, share_slow, slow)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--share-*") from None
    if fault is not None and fault not in FAULTS:
        raise typer.BadParameter(f"must be one of {', '.join(FAULTS)}", param_hint="--fault")
    limits = Limits(
        max_inputs=_bound(max_inputs, OPENAI_LIMITS.max_inputs),
        max_input_tokens=_bound(max_input_tokens, OPENAI_LIMITS.max_input_tokens),
        max_request_tokens=_bound(max_request_tokens, OPENAI_LIMITS.max_request_tokens),
        requests_per_interval=requests_per_minute,
        tokens_per_interval=tokens_per_minute,
    )
    try:
        server = ProviderServer(
            host=host,
            port=port,
            dimensions=dimensions,
            latency_s=latency,
            limits=limits,
            mishaps=mishaps,
            rules=Rules(key, frozenset(refuse_field or ()), frozenset(need_field or ())),
            seed=seed,
            rate_headers=headers,
            retry_after=headers,
            keep_journal=False,
        )
    except OSError as error:
        print(f"neo4j-queue: cannot listen on {host}:{port}: {error.strerror or error}", file=sys.stderr)
        raise typer.Exit(TEMPORARY) from None
    for words in refuse_text or ():
        server.reply_to_text(words, FAULTS["refusal"])
    server.reply_always(FAULTS[fault] if fault else None)
    with terminable():
        _serve(server, key, json=json)


def _bound(given: int | None, usual: int | None) -> int | None:
    """What an option means: missing = the usual bound, 0 = none."""
    return usual if given is None else given or None


def _serve(server: "ProviderServer", key: str | None, *, json: bool) -> None:
    started = time.monotonic()
    try:
        with server:
            _introduce(server, key, sys.stderr if json else sys.stdout)
            _watch(server)
    except KeyboardInterrupt:
        pass
    if sys.stderr.isatty():
        print(file=sys.stderr)
    counts, seconds = server.counts(), time.monotonic() - started
    if json:
        per_text = {"inputs_per_unique_text": counts.inputs_per_unique_text}
        output.print_json({**asdict(counts), **per_text, "seconds": round(seconds, 3)})
    else:
        output.print_facts(f"Served for {output.duration(seconds)}", _facts(counts))


def _introduce(server: "ProviderServer", key: str | None, stream: Any) -> None:
    lines = {
        "EMBEDDING_PROVIDER": "openai",
        "OPENAI_BASE_URL": server.url,
        "OPENAI_API_KEY": key or "any-key-is-good",
        "OPENAI_EMBEDDING_MODEL": MODEL,
        "NEO4J_VECTOR_DIMENSIONS": server.dimensions,
    }
    print("\n".join(f"{name}={value}" for name, value in lines.items()), file=stream, flush=True)


def _watch(server: "ProviderServer") -> NoReturn:
    """Tells what came in, over and over."""
    terminal = sys.stderr.isatty()
    said = None
    while True:
        line = _line(server.counts())
        if terminal:
            # Back to the line's start, and after the text its old rest is cleared.
            print(f"\r{line}\033[K", end="", file=sys.stderr, flush=True)
        elif line != said:
            print(line, file=sys.stderr, flush=True)
        said = line
        time.sleep(TERMINAL_EVERY_S if terminal else PLAIN_EVERY_S)


def _line(counts: "Counts") -> str:
    per_text = counts.inputs_per_unique_text
    parts = [
        f"{counts.requests:,} requests",
        f"{counts.inputs:,} inputs, {counts.unique_inputs:,} unique"
        + (f" ({per_text:.2f} per text)" if per_text is not None else ""),
        f"429: {counts.rate_limited:,}",
        f"5xx: {counts.server_errors:,}",
        f"most in a minute: {counts.most_in_a_minute:,}",
    ]
    return " | ".join(parts)


def _facts(counts: "Counts") -> dict[str, object]:
    per_text = counts.inputs_per_unique_text
    return {
        "requests": counts.requests,
        "most in any minute": counts.most_in_a_minute,
        "inputs": counts.inputs,
        "unique inputs": counts.unique_inputs,
        "inputs per unique text": None if per_text is None else f"{per_text:.2f}",
        "tokens": counts.tokens,
        "answered": counts.answers,
        "answered 429": counts.rate_limited,
        "answered 5xx": counts.server_errors,
        "answered otherwise": counts.other_errors,
        "not answered": counts.unanswered,
    }

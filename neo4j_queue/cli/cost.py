"""`usage`, and the answer of a dry run: what embedding cost, and what it would cost."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from neo4j_queue.cli import output, session

if TYPE_CHECKING:
    from neo4j_queue.graph.entities import EntityText
    from neo4j_queue.queue.usage import Usage
    from neo4j_queue.reconcile.estimate import Estimate

# As in `neo4j_queue.queue.usage`, which is too slow to import for a help text.
HOURS, HOURS_MAX = 24.0, 48.0
CENT = 0.01
DOOMED = "their jobs will fail without a request"


def register(app: typer.Typer) -> None:
    """Adds this module's command."""
    app.command()(usage)


def usage(
    hours: Annotated[
        float, typer.Option(min=0.01, max=HOURS_MAX, help="Look back so far; records are kept for a day.")
    ] = HOURS,
    json: Annotated[bool, typer.Option("--json", help="The answer as JSON.")] = False,
) -> None:
    """Show what was asked of the provider lately: requests, model tokens, jobs, and what that costs.

    Lay it beside the estimate of `enqueue --dry-run`. It counts batches when they have ended, searches included, and
    tokens as the provider counts them. The records of ended batches are kept for a day, then cleaned up.

    \b
    Examples:
      neo4j-queue usage
      neo4j-queue usage --hours 0.5
      neo4j-queue usage --json | jq .money_usd
    """
    from neo4j_queue.queue.usage import read
    from neo4j_queue.reconcile.prices import price_of

    settings = session.load_settings()
    price = price_of(settings)
    with session.open_databases(settings) as (_, jobs):
        found = session.in_time("the jobs database", lambda: read(jobs, hours))
    money = price.of(found.model_tokens) if price else None
    if json:
        answer = {
            **asdict(found),
            "now": output.iso(found.now),
            "first_at": output.iso(found.first_at),
            "last_at": output.iso(found.last_at),
            "hours": hours,
            "price_per_million_usd": price.per_million if price else None,
            "price_source": price.source if price else None,
            "money_usd": None if money is None else round(money, 6),
        }
        output.print_json(answer)
        return
    facts = {
        "requests": _requests(found),
        "of searches": found.searches or None,
        "model tokens": found.model_tokens,
        "jobs": f"{found.jobs:,} in {found.batches:,} batches",
        "from": output.iso(found.first_at),
        "to": output.iso(found.last_at),
        "money": _money(money, price.per_million if price else None, price.source if price else None),
    }
    output.print_facts(f"Asked of the provider in the last {hours:g} h", facts)


def _requests(found: "Usage") -> str:
    unsure = f" ({found.unconfirmed:,} of batches that ran out: sent or not)" if found.unconfirmed else ""
    return f"{found.requests:,}{unsure}"


def dry_run(
    both: session.Both,
    pages: Iterable[Sequence["EntityText"]],
    *,
    leave_failed: bool,
    total: Callable[[], int] | None = None,
    json: bool,
) -> None:
    """Prints what embedding these entities would cost; queues and writes nothing."""
    from neo4j_queue.reconcile.estimate import estimate

    with output.progress("entities") as advance:
        expected = total() if total else None
        found = estimate(
            pages,
            both.queue,
            both.settings,
            both.graph.model,
            leave_failed=leave_failed,
            progress=lambda seen: advance(seen, expected),
        )
    if json:
        output.print_json({"dry_run": True, **asdict(found)})
    else:
        _tell(found)


def _tell(found: "Estimate") -> None:
    output.print_facts("Dry run: nothing was queued, nothing was written", _facts(found))
    if found.to_embed:
        print("\nAfter the run, `neo4j-queue usage` shows what was really asked for.")


def _facts(found: "Estimate") -> dict[str, object]:
    cut = f" ({found.truncated:,} cut at the model's limit)" if found.truncated else ""
    counted = f"{found.model_tokens:,}"
    if found.model_tokens != found.est_tokens:
        counted += f" ({found.est_tokens:,} by size, x {found.token_factor:.2f} as this provider counts)"
    facts: dict[str, object] = {
        "entities looked at": found.seen,
        "fresh already": found.fresh,
        "queued before": found.queued_before or None,
        "failed before": f"{found.failed_before:,} (`retry` is for them)" if found.failed_before else None,
        "same key and text": found.repeated or None,
        "to queue": found.to_queue if found.to_queue != found.to_embed else None,
        "blank": f"{found.blank:,} texts: {DOOMED}" if found.blank else None,
        "too long": f"{found.too_long:,} texts (EMBED_LONG_TEXTS=fail): {DOOMED}" if found.too_long else None,
        "to embed": f"{found.to_embed:,}{cut}",
    }
    if not found.to_embed:
        return facts
    money = _money(found.money_usd, found.price_per_million_usd, found.price_source)
    return facts | {
        "characters": found.characters,
        "model tokens": f"about {counted}",
        "requests": f"{found.requests:,} with {found.inputs:,} different texts",
        "time": _time(found),
        "money": money,
    }


def _time(found: "Estimate") -> str:
    if found.limited_by is None:
        return "unlimited: as fast as provider and workers are"
    if found.minutes is None:
        return f"never: the limit is {found.limited_by}"
    return f"at least {output.duration(found.minutes * 60)} at {found.limited_by}"


def _money(money: float | None, per_million: float | None, source: str | None) -> str:
    if money is None:
        return "the model's price is not known here; set EMBEDDING_PRICE_PER_MILLION_TOKENS"
    amount = "less than 0.01 USD" if 0 < money < CENT else f"{money:,.2f} USD"
    return f"{amount} ({per_million:g} USD per million tokens: {source})"

"""`usage`, and the answer of a dry run: what embedding cost, and what it would cost."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from neo4j_queue.cli import output, session

if TYPE_CHECKING:
    from neo4j_queue.graph.entities import EntityText
    from neo4j_queue.queue.usage import UsageReport
    from neo4j_queue.reconcile.estimate import Estimate

# As in `neo4j_queue.queue.usage`, which is too slow to import for a help text.
HOURS, HOURS_MAX = 24.0, 48.0
CENT = 0.01
SET_PRICE = "set EMBEDDING_PRICE_PER_MILLION_TOKENS (0 for a model of your own)"
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
    tokens as the provider counts them. Each provider and model is a part of its own, at the price that was known when
    its batches began. The records of ended batches are kept for a day, then cleaned up.

    \b
    Examples:
      neo4j-queue usage
      neo4j-queue usage --hours 0.5
      neo4j-queue usage --json | jq .money_usd
    """
    from neo4j_queue.queue.usage import read

    with session.open_jobs() as (jobs, _):
        found = session.in_time("the jobs database", lambda: read(jobs, hours))
    if json:
        output.print_json(_usage_answer(found, hours))
        return
    facts = {
        "requests": _requests(found),
        "of searches": found.searches or None,
        "model tokens": found.model_tokens,
        "jobs": f"{output.counted(found.jobs, 'job')} in {output.counted(found.batches, 'batch', 'batches')}",
        "from": output.iso(found.first_at),
        "to": output.iso(found.last_at),
        "money": _sum_of_money(found),
    }
    output.print_facts(f"Asked of the provider in the last {hours:g} h", facts)
    if found.parts:
        print()
        columns = ["provider", "model", "requests", "model tokens", "USD per million", "USD"]
        rows = [
            [p.provider or "not noted", p.model, p.requests, p.model_tokens, _plain(p.price), _plain(p.money)]
            for p in found.parts
        ]
        output.print_table("", columns, rows)


def _usage_answer(found: "UsageReport", hours: float) -> dict[str, object]:
    return {
        "batches": found.batches,
        "jobs": found.jobs,
        "requests": found.requests,
        "model_tokens": found.model_tokens,
        "searches": found.searches,
        "unconfirmed": found.unconfirmed,
        "first_at": output.iso(found.first_at),
        "last_at": output.iso(found.last_at),
        "now": output.iso(found.now),
        "hours": hours,
        "money_usd": _rounded(found.money),
        "unpriced_tokens": found.unpriced_tokens,
        "by_model": [
            {
                "provider": part.provider,
                "model": part.model,
                "price_per_million_usd": part.price,
                "batches": part.batches,
                "jobs": part.jobs,
                "requests": part.requests,
                "model_tokens": part.model_tokens,
                "searches": part.searches,
                "unconfirmed": part.unconfirmed,
                "money_usd": _rounded(part.money),
            }
            for part in found.parts
        ],
    }


def _rounded(money: float | None) -> float | None:
    return None if money is None else round(money, 6)


def _plain(amount: float | None) -> str:
    return "not known" if amount is None else f"{amount:.6g}"


def _sum_of_money(found: "UsageReport") -> str:
    if not found.parts:
        return "0.00 USD"
    unknown = ""
    if found.unpriced_tokens:
        unknown = f"{found.unpriced_tokens:,} tokens of a price not known here: {SET_PRICE}"
    if found.money is None:
        return unknown
    return f"{_amount(found.money)}, each part at the price of its time" + (f"; {unknown}" if unknown else "")


def _requests(found: "UsageReport") -> str:
    unsure = f" ({found.unconfirmed:,} of batches that ran out: sent or not)" if found.unconfirmed else ""
    return f"{found.requests:,}{unsure}"


def dry_run(
    both: session.Both,
    pages: Iterable[Sequence["EntityText"]],
    *,
    leave_failed: bool,
    total: Callable[[], int] | None = None,
    more: Mapping[str, object] | None = None,
    json: bool,
) -> None:
    """Prints what embedding these entities would cost, with `more` before it; queues and writes nothing."""
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
        output.print_json({"dry_run": True, **(more or {}), **asdict(found)})
    else:
        _tell(found, more or {})


def _tell(found: "Estimate", more: Mapping[str, object]) -> None:
    said = {name.replace("_", " "): value for name, value in more.items()}
    output.print_facts("Dry run: nothing was queued, nothing was written", {**said, **_facts(found)})
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
        "blank": f"{output.counted(found.blank, 'text')}: {DOOMED}" if found.blank else None,
        "too long": f"{output.counted(found.too_long, 'text')} (EMBED_LONG_TEXTS=fail): {DOOMED}"
        if found.too_long
        else None,
        "to embed": f"{found.to_embed:,}{cut}",
    }
    if not found.to_embed:
        return facts
    money = _money(found.money_usd, found.price_per_million_usd, found.price_source)
    return facts | {
        "characters": found.characters,
        "model tokens": f"about {counted}",
        "requests": f"{found.requests:,} with {output.counted(found.inputs, 'different text')}",
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
        return f"the model's price is not known here; {SET_PRICE}"
    return f"{_amount(money)} ({per_million:g} USD per million tokens: {source})"


def _amount(money: float) -> str:
    return "less than 0.01 USD" if 0 < money < CENT else f"{money:,.2f} USD"

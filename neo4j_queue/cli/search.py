"""`search`: find entities by meaning and by words."""

import json as json_format
import shlex
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from neo4j_queue.cli import output, session
from neo4j_queue.cli.selection import epoch_ms

if TYPE_CHECKING:
    from neo4j_queue.graph.answer import Hit, SearchAnswer

# Characters of an entity's text in a table: enough to recognise it.
SNIPPET_CHARS = 100


class Mode(StrEnum):
    """The values of `--mode`."""

    SEMANTIC = "semantic"
    KEYWORD = "keyword"
    HYBRID = "hybrid"


# How each way is said to a person.
BY = {Mode.SEMANTIC: "meaning alone", Mode.KEYWORD: "words alone", Mode.HYBRID: "meaning and words"}


def register(app: typer.Typer) -> None:
    """Adds this module's command."""
    app.command()(search)


def search(
    query: Annotated[str, typer.Argument(metavar="QUERY", help="What you look for, in your own words.")],
    limit: Annotated[int, typer.Option(min=1, max=1000, help="At most this many.")] = 10,
    mode: Annotated[
        Mode | None,
        typer.Option(
            case_sensitive=False, help="By meaning, words, or both (default: both, where they are)."
        ),
    ] = None,
    min_score: Annotated[float | None, typer.Option(min=0, max=1, help="The least score of a hit.")] = None,
    label: Annotated[
        list[str] | None, typer.Option(help="Only entities with this label; again: with each of them.")
    ] = None,
    where: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="Only with this value of a property: JSON (1843, true, null), else text.",
        ),
    ] = None,
    changed_since: Annotated[
        str | None,
        typer.Option(
            metavar="TIME", help="Only embedded or changed since: 2h, 30m, 3d (ago), or 2026-07-01T12:00Z."
        ),
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Fail where a half cannot answer, instead of falling back.")
    ] = False,
    lucene: Annotated[
        bool, typer.Option("--lucene", help="QUERY is Lucene's syntax, not plain words.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="The answer as JSON.")] = False,
) -> None:
    """Find entities by meaning and by words, best first.

    The query is embedded by the configured provider, within the rate limit that it shares with the workers, and for
    at most EMBED_SEARCH_TIMEOUT_MS. Where that or an index is missing, the other half answers, and a line says so;
    with --strict that is an error. Stale hits (their vector is not that of their text now) are marked.

    Exit code 1 when nothing is found, 75 when the graph does not answer (with --strict also the provider), 78 before
    `init`.

    \b
    Examples:
      neo4j-queue search "compress a file"
      neo4j-queue search "who invented the loom" --limit 3 --json | jq -r '.hits[].entity'
      neo4j-queue search loom --mode keyword --label Person --where born=1752 --changed-since 7d
      neo4j-queue search 'name:Jacq* AND NOT punched' --lucene
    """
    asked: dict[str, Any] = {
        "mode": None if mode is None else mode.value,
        "min_score": min_score,
        "labels": label or (),
        "where": dict(_pair(each) for each in where or ()),
        "changed_since": _since(changed_since),
        "strict": strict,
        "lucene": lucene,
    }
    with session.open_both() as both:
        answer = _answer(both, query, limit, asked)
        texts = [" ".join(both.graph.recipe.text(hit.properties).split()) for hit in answer.hits]
    if json:
        output.print_json(answer.as_dict())
    elif answer.hits:
        _table(answer, texts)
    _tell(answer)
    if not answer.hits:
        filters = {"--label": label or (), "--where": where or ()}
        ends = {"--changed-since": changed_since, "--min-score": min_score}
        _refuse_empty(filters | {name: (value,) for name, value in ends.items() if value is not None})


def _answer(both: session.Both, query: str, limit: int, asked: dict[str, Any]) -> "SearchAnswer":
    from neo4j_queue.errors import SettingsError

    try:
        return both.graph.search(query, limit, **asked)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    except SettingsError as error:
        _explain(both, error)


def _refuse_empty(filters: Mapping[str, Iterable[object]]) -> NoReturn:
    """`filters`: the values by the option. Where there are some, they are what left nothing in all likelihood."""
    given = " ".join(
        f"{name} {shlex.quote(str(each))}" for name, values in filters.items() for each in values
    )
    if given:
        session.refuse(f"nothing found that passes {given}; the same search without them may find more")
    session.refuse("nothing found; `neo4j-queue status` shows how many entities have a vector")


def _pair(text: str) -> tuple[str, Any]:
    """A property and its value, out of `name=value`."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise typer.BadParameter(f"{text!r} is not NAME=VALUE.", param_hint="--where")
    try:
        return name, json_format.loads(value)
    except (ValueError, RecursionError):
        return name, value


def _since(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromtimestamp(epoch_ms(text, "--changed-since") / 1000, UTC)


def _table(answer: "SearchAnswer", texts: list[str]) -> None:
    rows = [_row(hit, text) for hit, text in zip(answer.hits, texts, strict=True)]
    output.print_table("", ["score", "meaning", "words", "", "entity", "text"], rows)


def _row(hit: "Hit", text: str) -> list[str]:
    semantic = "" if hit.semantic is None else f"{hit.semantic:.3f}"
    keyword = "" if hit.keyword is None else f"{hit.keyword:.1f}"
    stale = "stale" if hit.stale else ""
    return [f"{hit.score:.3f}", semantic, keyword, stale, hit.uid, text[:SNIPPET_CHARS]]


def _tell(answer: "SearchAnswer") -> None:
    """Lines beside the answer: what was searched where that is not what was asked for."""
    coverage = answer.coverage
    if answer.fallback_reason is not None:
        searched = output.counted(coverage.entities, "entity", "entities")
        by = BY[Mode(answer.search_type.value)]
        waiting = f", {coverage.pending:,} of them waiting for a vector" if coverage.pending else ""
        session.warn(f"searched {searched} by {by}{waiting}: {answer.fallback_reason}")
    if coverage.cut:
        session.warn("few of the nearest pass the filters, and no more were looked at: there may be others")


def _explain(both: session.Both, error: Exception) -> NoReturn:
    """Raises `SettingsError` with what is wrong with the indexes and what to do, else the error itself."""
    from neo4j_queue.errors import SettingsError
    from neo4j_queue.schema.graph_schema import GraphSchema
    from neo4j_queue.schema.indexes import indexes
    from neo4j_queue.schema.search_indexes import search_problems

    problems = search_problems(GraphSchema.from_settings(both.settings), indexes(both.graph.database))
    if problems:
        raise SettingsError(problems[:1]) from error
    raise error

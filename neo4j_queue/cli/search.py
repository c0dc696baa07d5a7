"""`search`: find entities by meaning."""

from typing import Annotated, NoReturn

import typer

from neo4j_queue.cli import output, session

# Characters of an entity's text in a table: enough to recognise it.
SNIPPET_CHARS = 100


def register(app: typer.Typer) -> None:
    """Adds this module's command."""
    app.command()(search)


def search(
    query: Annotated[str, typer.Argument(metavar="QUERY", help="What you look for, in your own words.")],
    limit: Annotated[int, typer.Option(min=1, max=1000, help="At most this many.")] = 10,
    json: Annotated[bool, typer.Option("--json", help="The answer as JSON.")] = False,
) -> None:
    """Find the entities nearest in meaning to a query, best first.

    The query is embedded by the configured provider, within the rate limit that it shares with the workers. Exit
    code 1 when nothing is found, 75 when that limit leaves no room for EMBED_REQUEST_TIMEOUT_MS.

    \b
    Examples:
      neo4j-queue search "compress a file"
      neo4j-queue search "who invented the loom" --limit 3 --json | jq -r '.[].entity'
    """
    from neo4j.exceptions import ClientError

    if not query.strip():
        raise typer.BadParameter("is blank", param_hint="QUERY")
    with session.open_both() as both:
        try:
            hits = both.graph.search(query, limit)
        except ClientError as error:
            _explain(both, error)
        snippets = [" ".join(both.graph.recipe.text(hit.properties).split())[:SNIPPET_CHARS] for hit in hits]
    if json:
        output.print_json(
            [
                {
                    "entity": hit.uid,
                    "score": hit.score,
                    "labels": list(hit.labels),
                    "properties": hit.properties,
                }
                for hit in hits
            ]
        )
    elif hits:
        rows = [[f"{hit.score:.3f}", hit.uid, text] for hit, text in zip(hits, snippets, strict=True)]
        output.print_table("", ["score", "entity", "text"], rows)
    if not hits:
        session.refuse("nothing found; `neo4j-queue status` shows how many entities have a vector")


def _explain(both: session.Both, error: Exception) -> NoReturn:
    """Raises `SettingsError` with what is wrong with the index and what to do, else the error itself."""
    from neo4j_queue.errors import SettingsError
    from neo4j_queue.schema.graph_schema import GraphSchema
    from neo4j_queue.schema.indexes import indexes
    from neo4j_queue.schema.search_indexes import search_problems

    problems = search_problems(GraphSchema.from_settings(both.settings), indexes(both.graph.database))
    if problems:
        raise SettingsError(problems[:1]) from error
    raise error

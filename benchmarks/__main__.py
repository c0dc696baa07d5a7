"""The command line of the benchmarks."""

from enum import StrEnum
from typing import Annotated

import typer
from rich.console import Console

from benchmarks import drain, edits, latency, load, provider, queue, search, sweep, triggers
from benchmarks.options import Options
from benchmarks.report import console
from benchmarks.stage import open_stage
from neo4j_queue.errors import Neo4jQueueError

PARTS = (
    *queue.PARTS,
    *drain.PARTS,
    *latency.PARTS,
    *edits.PARTS,
    *load.PARTS,
    *provider.PARTS,
    *search.PARTS,
    *sweep.PARTS,
    *triggers.PARTS,
)
QUICK_JOBS = 2_000


class Name(StrEnum):
    """The benchmarks."""

    QUEUE = "queue"
    DRAIN = "drain"
    LATENCY = "latency"
    EDITS = "edits"
    LOAD = "load"
    PROVIDER = "provider"
    SEARCH = "search"
    SWEEP = "sweep"
    TRIGGERS = "triggers"


RUN = {
    Name.QUEUE: queue.run,
    Name.DRAIN: drain.run,
    Name.LATENCY: latency.run,
    Name.EDITS: edits.run,
    Name.LOAD: load.run,
    Name.PROVIDER: provider.run,
    Name.SEARCH: search.run,
    Name.SWEEP: sweep.run,
    Name.TRIGGERS: triggers.run,
}


def main(
    names: Annotated[list[Name] | None, typer.Argument(help="Which ones; all by default.")] = None,
    jobs: Annotated[int, typer.Option(help="Jobs of one drain.", min=1_000)] = 20_000,
    rounds: Annotated[int, typer.Option(help="How often each is measured, in turn.", min=1)] = 3,
    quick: Annotated[bool, typer.Option("--quick", help="A smoke test: figures mean nothing.")] = False,
    only: Annotated[list[str] | None, typer.Option(help=f"Only this part ({', '.join(PARTS)}).")] = None,
) -> None:
    """Measures the queue on services of its own, and shows each figure beside its baseline of the same run."""
    unknown = set(only or ()) - set(PARTS)
    if unknown:
        raise typer.BadParameter(f"no such part: {', '.join(sorted(unknown))}", param_hint="--only")
    options = Options(QUICK_JOBS if quick else jobs, 1 if quick else rounds, quick, frozenset(only or ()))
    news, tables = Console(stderr=True), console()
    try:
        with open_stage(lambda line: news.print(line, highlight=False)) as stage:
            for name in names or list(Name):
                report = RUN[name](stage, options)
                if quick:
                    report.notes.append("A smoke test: these figures mean nothing.")
                report.show(tables)
                news.print(f"written to {report.save()}")
    except Neo4jQueueError as error:
        news.print(str(error), style="red")
        raise typer.Exit(error.exit_code) from None


if __name__ == "__main__":
    typer.run(main)

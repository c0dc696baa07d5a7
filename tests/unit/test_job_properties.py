"""The one list of a job's properties, against the statements that write them and the page that explains them."""

import re
from collections import defaultdict
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import pytest

from neo4j_queue import cypher
from neo4j_queue.cypher import statement
from neo4j_queue.queue.job_properties import FAULT_PROPERTIES, PROPERTIES, Requeued

PAGE = Path(__file__).parents[2] / "docs/reference/jobs-database.md"
STATEMENTS = sorted(
    file.name.removesuffix(".cypher")
    for file in files(cypher).joinpath("jobs").iterdir()
    if file.name.endswith(".cypher")
)
END = r"(?=\b(?:WITH|RETURN|REMOVE|SET|MATCH|UNWIND|DETACH|DELETE|CALL|FOREACH|CREATE|MERGE)\b|\Z)"
KEY = re.compile(r"MERGE \(j:EmbedJob \{([^}]*)\}")


def clauses(body: str, word: str) -> Iterator[str]:
    yield from re.findall(rf"\b{word}\b(.*?){END}", body, re.DOTALL)


def written(name: str) -> tuple[set[str], set[str]]:
    """The properties of `j` that a statement sets, and those that it removes."""
    body = statement(f"jobs/{name}")
    sets = {p for clause in clauses(body, "SET") for p in re.findall(r"\bj\.(\w+)\s*=", clause)}
    removed = {p for clause in clauses(body, "REMOVE") for p in re.findall(r"\bj\.(\w+)", clause)}
    sets |= {pair.split(":")[0].strip() for key in KEY.findall(body) for pair in key.split(",")}
    if "j += row.noted" in body:
        sets |= set(FAULT_PROPERTIES)
    return sets - {"_lock"}, removed


def named(*kinds: Requeued) -> set[str]:
    return {p.name for p in PROPERTIES if p.requeued in kinds}


def test_each_statement_writes_what_the_list_says() -> None:
    """Fails when a statement writes a property that the list does not give to it."""
    writers: dict[str, set[str]] = defaultdict(set)
    for name in STATEMENTS:
        for written_one in set.union(*written(name)):
            writers[written_one].add(name)
    assert dict(writers) == {p.name: set(p.writers) for p in PROPERTIES}


def test_a_new_job_has_what_a_requeue_writes_again() -> None:
    sets, removed = written("enqueue")
    assert sets == named(Requeued.KEPT, Requeued.RESET)
    assert removed == set()


@pytest.mark.parametrize(
    ("name", "raised", "not_asked"),
    [("requeue", {"priority"}, set()), ("retry_failed", set(), {"max_attempts", "est_tokens", "made_for"})],
)
def test_a_job_that_is_queued_again_is_as_if_new(name: str, raised: set[str], not_asked: set[str]) -> None:
    """Fails when `j.outcome`, say, is taken out of the statement."""
    sets, removed = written(name)
    assert sets == named(Requeued.RESET) - not_asked | raised
    assert removed == named(Requeued.REMOVED)


def test_the_reference_explains_each_property() -> None:
    table = PAGE.read_text(encoding="utf-8").split("(:EmbedJob)", 1)[1].split("\nEvery node", 1)[0]
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    assert {name for row in rows for name in re.findall(r"`(\w+)`", row)} == {p.name for p in PROPERTIES}

"""Workers and callers must mean the same graph, entities, text and model: what a fingerprint tells."""

from typing import Any

import pytest

from neo4j_queue.checks.fingerprint import Split, disagreement, fingerprint, split
from neo4j_queue.queue.leases import Worker
from neo4j_queue.settings import Settings


def mark(**settings: Any) -> str:
    return fingerprint(Settings(**{"_env_file": None, "embedding_provider": "mock", **settings}), None)


@pytest.mark.parametrize(
    ("changed", "parts"),
    [
        ({"embed_entity_label": "Book"}, "label"),
        ({"embed_entity_key": "isbn", "embed_text_properties": "title"}, "key"),
        ({"embed_deleted_property": "archived"}, "deleted"),
        ({"embed_deleted_property": None}, "deleted"),
        ({"embed_text_properties": "title,summary"}, "text"),
        ({"embed_text_template": "{title}"}, "text"),
        ({"embedding_provider": "openai"}, "model"),
        ({"neo4j_vector_dimensions": 16}, "model"),
        ({"embed_entity_label": "Book", "neo4j_vector_dimensions": 16}, "label, model"),
    ],
)
def test_each_setting_that_must_agree_is_told_by_its_part(changed: dict[str, Any], parts: str) -> None:
    usual = {"embed_text_properties": "title"} if "embed_entity_key" in changed else {}
    line = disagreement([Worker("old@host", 1, fingerprint=mark(**usual))], mark(**changed))
    assert line == (
        f"worker old@host runs with other settings than yours ({parts}) and cannot do your jobs: restart with the "
        "right ones"
    )


def test_the_order_and_the_form_of_the_text_count() -> None:
    memento = ["name", "entityType", "observations"]
    marks = {
        mark(),
        mark(embed_text_properties=",".join(memento)),
        mark(embed_text_properties=",".join(reversed(memento))),
        mark(embed_text_template="{name}{entityType}{observations}"),
    }
    assert len(marks) == 4


def test_what_need_not_agree_and_secrets_are_not_in_it() -> None:
    other = mark(embed_batch_size=7, neo4j_uri="bolt://other:7687", embed_job_retention_days=9)
    assert other == mark()
    assert "Secretive" not in mark(embed_entity_label="Secretive")


def test_several_workers_are_named_in_one_line_and_those_that_agree_are_not() -> None:
    own = mark()
    workers = [
        Worker("b@host", 1, fingerprint=mark(embed_entity_label="Book")),
        Worker("a@host", 1, fingerprint=mark(neo4j_vector_dimensions=16)),
        Worker("good@host", 1, fingerprint=own),
        Worker("silent@host", 1),
        Worker("knows-the-graph@host", 1, fingerprint=f"graph:12345678 {own}"),
    ]
    line = disagreement(workers, own)
    assert line is not None
    assert line.startswith("workers a@host, b@host run with other settings than yours (label, model)")
    assert disagreement(workers[2:], own) is None
    other_graph = disagreement(workers, f"graph:00000000 {own}")
    assert other_graph is not None
    assert "knows-the-graph@host" in other_graph


def test_workers_that_disagree_with_one_another_are_told_in_groups() -> None:
    """What a worker does not tell is not compared: neither the graph that one alone knows, nor a silent worker."""
    book, usual = mark(embed_entity_label="Book"), mark()
    workers = [
        Worker("d@host", 1, fingerprint=usual),
        Worker("b@host", 1, fingerprint=book),
        Worker("a@host", 1, fingerprint=f"graph:12345678 {usual}"),
        Worker("silent@host", 1),
    ]
    assert split(workers) == Split(("label",), (("a@host", "d@host"), ("b@host",)))
    assert str(split(workers)).startswith(
        "workers run with different settings (label): a@host, d@host / b@host; none does the jobs of the others"
    )
    assert split([workers[0], *workers[2:]]) is None
    assert split([]) is None


def test_a_line_about_many_workers_stays_short() -> None:
    many = [Worker(f"w{n}@host", 1, fingerprint=mark()) for n in range(9)]
    line = str(split([*many, Worker("x@host", 1, fingerprint=mark(neo4j_vector_dimensions=16))]))
    assert "(model): w0@host, w1@host, w2@host and 6 more / x@host;" in line

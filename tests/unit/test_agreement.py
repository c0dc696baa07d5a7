"""Workers and callers must mean the same graph, entities, text and model: what a fingerprint tells."""

from typing import Any

import pytest

from neo4j_queue.agreement import disagreement, fingerprint
from neo4j_queue.jobs import Worker
from neo4j_queue.settings import Settings


def mark(**settings: Any) -> str:
    return fingerprint(Settings(**{"_env_file": None, "embedding_provider": "mock", **settings}), None)


@pytest.mark.parametrize(
    ("changed", "parts"),
    [
        ({"embed_entity_label": "Book"}, "label"),
        ({"embed_entity_key": "isbn", "embed_text_properties": "title"}, "key"),
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
        f"worker old@host runs with other settings than yours ({parts}) and would end your jobs "
        "without a vector: restart it"
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

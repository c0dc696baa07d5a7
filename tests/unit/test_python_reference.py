"""docs/reference/python.md is made of the docstrings: `python -m tests.unit.test_python_reference` writes it anew."""

import dataclasses
import inspect
from pathlib import Path
from typing import Any

import neo4j_queue
from neo4j_queue.graph.answer import Hit, SearchAnswer, SearchCoverage
from neo4j_queue.graph.bulk_load import Loaded
from neo4j_queue.graph.entities import Change, Entity, EntityInput, EntityResult, Relation
from neo4j_queue.graph.entity_graph import EntityGraph
from neo4j_queue.jobs import Enqueued, EnqueueResult
from neo4j_queue.reconcile.explanation import Cause, Explanation, JobRecord, Prepared, Reason, Vector

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "python.md"
HEAD = """# Python

Made of the docstrings by `python -m tests.unit.test_python_reference`.

```python
import neo4j_queue

with neo4j_queue.open_graph() as graph:
    graph.create_entities([{"name": "Ada Lovelace", "observations": ["wrote the first program"]}])
    graph.search("pioneer of computing")
```

The snippet is for the default settings. Under other ones an entity is a mapping of its own properties, the one of
`EMBED_ENTITY_KEY` among them: `graph.create_entities([{"isbn": "0-13-110362-8", "title": "…"}])`. A program that writes
with plain Cypher calls `graph.touch(keys)` afterwards, or leaves it to the sweeps.
"""
METHODS = (
    *(
        "create_entities",
        "load_entities",
        "update_entity",
        "touch",
        "add_observations",
        "delete_observations",
        "delete_entity",
    ),
    *("create_relations", "load_relations", "get_entity", "search", "close"),
)
VALUES: tuple[type[Any], ...] = (
    EntityInput,
    EntityResult,
    Change,
    Loaded,
    EnqueueResult,
    Enqueued,
    Relation,
    Entity,
    SearchAnswer,
    Hit,
    SearchCoverage,
    Explanation,
    Cause,
    Reason,
    Prepared,
    Vector,
    JobRecord,
)


def page() -> str:
    """The whole page."""
    opened = _callable("neo4j_queue.open_graph", neo4j_queue.open_graph)
    methods = [_callable(f"graph.{name}", getattr(EntityGraph, name)) for name in METHODS]
    explained = _callable("neo4j_queue.explain_entity", neo4j_queue.explain_entity)
    values = [_value(kind) for kind in VALUES]
    return (
        "\n".join([HEAD, "## Calls\n", opened, *methods, explained, "## Values\n", *values]).rstrip() + "\n"
    )


def _callable(name: str, call: Any) -> str:
    signature = inspect.signature(call)
    shown = [each for each in signature.parameters.values() if each.name != "self"]
    return f"### `{name}({', '.join(map(_parameter, shown))})`\n\n{_prose(call)}\n"


def _parameter(parameter: inspect.Parameter) -> str:
    default = parameter.default
    return parameter.name if default is inspect.Parameter.empty else f"{parameter.name}={default!r}"


def _value(kind: type[Any]) -> str:
    if dataclasses.is_dataclass(kind):
        names = ", ".join(f"`{each.name}`" for each in dataclasses.fields(kind))
    else:
        names = ", ".join(f"`{each.value}`" for each in kind)
    return f"### `{kind.__name__}`\n\n{names}\n\n{_prose(kind)}\n"


def _prose(documented: Any) -> str:
    return inspect.getdoc(documented) or ""


def test_the_page_is_what_the_docstrings_say() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run: python -m tests.unit.test_python_reference"


def test_every_public_call_of_a_graph_is_on_it() -> None:
    own = {name for name, each in vars(EntityGraph).items() if inspect.isfunction(each) and name[0] != "_"}
    assert own == set(METHODS)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")

"""The two indexes that search asks, vectors and words: what is wrong with those that are there, and the way out.

The server allows one vector index over a label's vectors and one full-text index over the same properties,
whatever their names. Advice that looks at one index alone therefore leads in a circle: each line here names one
thing to do, and after it `neo4j-queue init` succeeds. An index under another name than ours belongs to another program:
it is used as it is or done without, and no line asks to drop it.
"""

from collections.abc import Mapping
from dataclasses import replace

from neo4j_queue.graph import search_indexes
from neo4j_queue.graph.indexes import Index
from neo4j_queue.schema.graph_schema import GraphSchema

INIT = "run neo4j-queue init"


def search_problems(schema: GraphSchema, there: Mapping[str, Index]) -> list[str]:
    """What keeps search from working with the indexes that are there, one line each with what to do."""
    problems, name = _vectors(schema, there)
    # With the name of the vector index comes that of the full-text index: `init` makes that one under the new name.
    return problems if name != schema.vector_index else [*problems, *_words(schema, there)]


def search_notes(schema: GraphSchema, there: Mapping[str, Index]) -> list[str]:
    """What the full-text indexes that are there mean for search by words; nothing else needs them."""
    name = schema.text_index
    if rival := next(iter(rivals(schema, there, "FULLTEXT", *schema.properties)), None):
        used = f"it is used, {name} is not made"
        if other_analyzer(schema, rival):
            used += f"; its analyzer is {rival.analyzer}, not {schema.analyzer}"
        return [f"full-text index {rival.name} of another program covers the text: {used}"]
    index = there.get(name)
    if index is not None and not own_words(schema, index):
        taken = f"{name} is {_described(index)}, which another program has made"
        return [f"{taken}: there is no search by words unless NEO4J_VECTOR_INDEX has another name"]
    if index is not None and not index.covers(schema.label, *schema.properties):
        over = f"full-text index {name} is over {', '.join(index.properties)}, not {', '.join(schema.properties)}"
        return [f"{over}: {INIT} --yes, which drops it and makes it anew"]
    if index is not None and other_analyzer(schema, index):
        has = f"full-text index {name} has the analyzer {index.analyzer}"
        wanted = f"EMBED_FULLTEXT_ANALYZER={schema.analyzer}"
        return [f"{has}, {wanted}: {INIT} --yes, which drops it and makes it anew"]
    return []


def other_analyzer(schema: GraphSchema, index: Index) -> bool:
    """True if a full-text index is known to take texts apart in another way than the settings say."""
    return index.analyzer not in (None, schema.analyzer)


def words_index(schema: GraphSchema, there: Mapping[str, Index]) -> str | None:
    """The full-text index over the text properties, ours or another program's; None if there is none."""
    found = search_indexes.words_index(
        there.values(), name=schema.text_index, label=schema.label, properties=schema.properties
    )
    return None if found is None else found.name


def can_make_words(schema: GraphSchema, there: Mapping[str, Index], *, remake: bool) -> bool:
    """True if `init` can make the full-text index; `remake`: also after it has dropped the one over other properties.

    Not under a name that the vector index cannot have: it would be in the way when that name is given up.
    """
    vectors, words = there.get(schema.vector_index), there.get(schema.text_index)
    named = (
        not rivals(schema, there, "VECTOR", schema.vector.name)
        if vectors is None
        else _is_vectors(schema, vectors)
    )
    free = words is None or (remake and own_words(schema, words))
    return named and free and not rivals(schema, there, "FULLTEXT", *schema.properties)


def own_words(schema: GraphSchema, index: Index) -> bool:
    """True if this has the name and the label of the full-text index that `init` makes, over whatever properties.

    Another program may have made it under that name: it is never dropped without a word of a person.
    """
    return index.name == schema.text_index and index.type == "FULLTEXT" and index.labels == [schema.label]


def rivals(schema: GraphSchema, there: Mapping[str, Index], kind: str, *properties: str) -> list[Index]:
    """Indexes of other names over the same: the server allows one for each schema, so ours cannot be made."""
    ours = (schema.vector_index, schema.text_index)
    return [
        i
        for i in there.values()
        if i.type == kind and i.name not in ours and i.covers(schema.label, *properties)
    ]


def _vectors(schema: GraphSchema, there: Mapping[str, Index]) -> tuple[list[str], str]:
    """What is wrong with the vector index, and the name that it is to have."""
    name = schema.vector_index
    named = there.get(name)
    foreign = named is not None and not _is_vectors(schema, named)
    other = next(iter(rivals(schema, there, "VECTOR", schema.vector.name)), None)
    index = other if named is None or foreign else named
    if index is None:
        if named is None:
            return [f"vector index {name} is missing: {INIT}"], name
        over = f":{schema.label}({schema.vector.name})"
        taken = f"NEO4J_VECTOR_INDEX={name} is {_described(named)}, not one for {over}"
        free = _free_name(schema, there)
        return [f"{taken}: set NEO4J_VECTOR_INDEX={free} and {INIT}"], free
    dimensions, similarity = _shape(schema, index)
    what = f"vector index {index.name} of :{schema.label}"
    if index is not other and dimensions != schema.dimensions:
        does = f"{what} has {dimensions} dimensions, the model gives {schema.dimensions}"
        return [f"{does}: {_drop(index)} in the graph and {INIT}"], name
    wanted = [f"NEO4J_VECTOR_INDEX={index.name}"] if index is other else []
    if dimensions != schema.dimensions:
        # One label has one vector index over one property: two programs share it, or one of them uses another label.
        what += f", of another program, has {dimensions} dimensions, the model gives {schema.dimensions}"
        wanted.append(
            f"NEO4J_VECTOR_DIMENSIONS={dimensions} with a model of that width (or EMBED_ENTITY_LABEL to another)"
        )
    if similarity != schema.similarity:
        what += f" compares by {similarity}, NEO4J_SIMILARITY_FUNCTION={schema.similarity}"
        wanted.append(f"NEO4J_SIMILARITY_FUNCTION={similarity}")
    elif index is other and dimensions == schema.dimensions:
        what += f" is there already, NEO4J_VECTOR_INDEX={name}"
    return ([f"{what}: set {' and '.join(wanted)}, and {INIT}"] if wanted else []), index.name


def _is_vectors(schema: GraphSchema, index: Index) -> bool:
    return index.type == "VECTOR" and index.covers(schema.label, schema.vector.name)


def _shape(schema: GraphSchema, index: Index) -> tuple[int, str]:
    config = index.config or {}
    # An index made without dimensions takes vectors of any length; then there is nothing to disagree with.
    dimensions = config.get("vector.dimensions")
    similarity = str(config.get("vector.similarity_function", schema.similarity)).lower()
    return schema.dimensions if dimensions is None else int(dimensions), similarity


def _words(schema: GraphSchema, there: Mapping[str, Index]) -> list[str]:
    name = schema.text_index
    if name in there or words_index(schema, there) is not None:
        return []
    return [f"full-text index {name} is missing: {INIT}"]


def _described(index: Index) -> str:
    return f"a {index.type} index on {index.labels} {index.properties}"


def _drop(index: Index) -> str:
    kind, name = ("CONSTRAINT", index.constraint) if index.constraint else ("INDEX", index.name)
    return f"DROP {kind} `{name}`"


def _free_name(schema: GraphSchema, there: Mapping[str, Index]) -> str:
    """A name under which both indexes can be made."""
    base = name = f"{schema.label.lower()}_embeddings"
    number = 1
    while {name, replace(schema, vector_index=name).text_index} & there.keys():
        number += 1
        name = f"{base}_{number}"
    return name

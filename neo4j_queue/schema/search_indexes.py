"""The two indexes that search asks, vectors and words: what is wrong with those that are there, and the way out.

The server allows one vector index over a label's vectors and one full-text index over the same properties,
whatever their names. Advice that looks at one index alone therefore leads in a circle: each line here names one
thing to do, and after it `neo4j-queue init` succeeds.
"""

from collections.abc import Mapping
from dataclasses import replace

from neo4j_queue.schema.graph_schema import GraphSchema
from neo4j_queue.schema.indexes import Index

INIT = "run neo4j-queue init"


def search_problems(schema: GraphSchema, there: Mapping[str, Index]) -> list[str]:
    """What keeps search from working with the indexes that are there, one line each with what to do."""
    problem, name, dropped = _vectors(schema, there)
    if name == schema.vector_index and not dropped:
        return [*problem, *_words(schema, there)]
    # Seen as it will be when the advice is followed: what `init` makes then is no problem now.
    then = replace(schema, vector_index=name)
    left = {index.name: index for index in there.values() if index.name != dropped}
    return problem if can_make_words(then, left) else [*problem, *_words(then, left)]


def can_make_words(schema: GraphSchema, there: Mapping[str, Index]) -> bool:
    """Whether `init` can make the full-text index, be it in the place of our own over other properties.

    Not under a name that the vector index cannot have: it would be in the way when that name is given up.
    """
    vectors, words = there.get(schema.vector_index), there.get(schema.text_index)
    named = (
        not rivals(schema, there, "VECTOR", schema.vector.name)
        if vectors is None
        else _is_vectors(schema, vectors)
    )
    free = words is None or own_words(schema, words)
    return named and free and not rivals(schema, there, "FULLTEXT", *schema.properties)


def own_words(schema: GraphSchema, index: Index) -> bool:
    """Whether this is the full-text index that `init` made for these entities, over whatever properties."""
    return index.name == schema.text_index and index.type == "FULLTEXT" and index.labels == [schema.label]


def rivals(schema: GraphSchema, there: Mapping[str, Index], kind: str, *properties: str) -> list[Index]:
    """Indexes of other names over the same: the server allows one for each schema, so ours cannot be made."""
    ours = (schema.vector_index, schema.text_index)
    return [
        i
        for i in there.values()
        if i.type == kind and i.name not in ours and i.covers(schema.label, *properties)
    ]


def _vectors(schema: GraphSchema, there: Mapping[str, Index]) -> tuple[list[str], str, str | None]:
    """What is wrong with the vector index, the name it is to have, and the index that is to be dropped for it."""
    name = schema.vector_index
    named = there.get(name)
    foreign = named is not None and not _is_vectors(schema, named)
    other = next(iter(rivals(schema, there, "VECTOR", schema.vector.name)), None)
    index = other if named is None or foreign else named
    if index is None:
        if named is None:
            return [f"vector index {name} is missing: {INIT}"], name, None
        taken = f"NEO4J_VECTOR_INDEX={name} is {_described(named)}, not one for :{schema.label}({schema.vector.name})"
        free = _free_name(schema, there)
        return [f"{taken}: set NEO4J_VECTOR_INDEX={free} and {INIT}"], free, None
    dimensions, similarity = _shape(schema, index)
    what = f"vector index {index.name} of :{schema.label}"
    if dimensions != schema.dimensions:
        # Under its own name, so that the full-text index that goes with it stays.
        setting = f", set NEO4J_VECTOR_INDEX={index.name}" if index is other else ""
        does = f"{what} has {dimensions} dimensions, the model gives {schema.dimensions}"
        return [f"{does}: {_drop(index)} in the graph{setting} and {INIT}"], index.name, index.name
    wanted = []
    if index is other:
        wanted.append(f"NEO4J_VECTOR_INDEX={index.name}")
    if similarity != schema.similarity:
        what += f" compares by {similarity}, NEO4J_SIMILARITY_FUNCTION={schema.similarity}"
        wanted.append(f"NEO4J_SIMILARITY_FUNCTION={similarity}")
    elif index is other:
        what += f" is there already, NEO4J_VECTOR_INDEX={name}"
    return ([f"{what}: set {' and '.join(wanted)}, and {INIT}"] if wanted else []), index.name, None


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
    index = there.get(name)
    if index is not None and own_words(schema, index) and index.covers(schema.label, *schema.properties):
        return []
    for rival in rivals(schema, there, "FULLTEXT", *schema.properties):
        taken = f"full-text index `{rival.name}` covers the text properties, but {name} is needed"
        return [f"{taken}: {_drop(rival)} in the graph and {INIT}"]
    if index is None:
        return [f"full-text index {name} is missing: {INIT}"]
    needed = f"one on {[schema.label]} {list(schema.properties)} is needed"
    if own_words(schema, index):
        return [f"full-text index {name} is over {index.properties}, {needed}: {INIT}, which makes it anew"]
    return [f"index {name} is {_described(index)}, {needed}: {_drop(index)} in the graph and {INIT}"]


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

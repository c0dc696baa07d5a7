"""The schema of the graph: made beside the user's data, never at its cost."""

import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from neo4j_queue.database import Database
from neo4j_queue.schema import check_graph, migrate_graph
from neo4j_queue.schema.graph_schema import GraphSchema
from neo4j_queue.schema.indexes import Report, indexes
from neo4j_queue.schema.leftovers import leftovers
from neo4j_queue.schema.search_indexes import words_index
from neo4j_queue.settings import Settings

INDEX = "paper_vectors"


@pytest.fixture
def papers(graph_db: Database, make_settings: Callable[..., Settings]) -> Iterator[Callable[..., Settings]]:
    """Settings for a label of its own, whose indexes are gone before and after the test."""

    def settings(**overrides: Any) -> Settings:
        values = {"embed_entity_label": "Paper", "embed_entity_key": "doi", "neo4j_vector_index": INDEX}
        return make_settings(**{**values, **overrides})

    def drop() -> None:
        graph_db.autocommit("MATCH (n) DETACH DELETE n")
        for index in indexes(graph_db).values():
            if index.labels in (["Paper"], ["Person"]) or index.properties == ["doi"]:
                kind, name = ("CONSTRAINT", index.constraint) if index.constraint else ("INDEX", index.name)
                graph_db.autocommit(f"DROP {kind} `{name}` IF EXISTS")

    drop()
    yield settings
    drop()


def names(report: Report) -> set[str]:
    return set(report.created)


def test_everything_is_made_once_and_a_second_time_nothing(
    graph_db: Database, papers: Callable[..., Settings]
) -> None:
    settings = papers()
    before = check_graph(graph_db, settings)
    assert len(before.problems) == 5
    assert all("neo4j-queue init" in problem for problem in before.problems)

    first = migrate_graph(graph_db, settings)
    assert (first.ok, first.notes) == (True, ())
    assert names(first) == {
        "Paper_doi_key",
        "EmbedPending_doi",
        "Paper_embedding_hash",
        INDEX,
        f"{INDEX}_text",
    }
    there = indexes(graph_db)
    assert {there[name].state for name in first.created} == {"ONLINE"}
    assert there["Paper_doi_key"].constraint == "Paper_doi_key"
    assert there[INDEX].config is not None
    dimensions = GraphSchema.from_settings(settings).dimensions
    assert there[INDEX].config["vector.dimensions"] == dimensions
    assert there[INDEX].config["vector.similarity_function"] == "COSINE"
    assert there[f"{INDEX}_text"].covers("Paper", "doi", "entityType", "observations")

    second = migrate_graph(graph_db, settings)
    assert (second.ok, second.created, second.notes) == (True, (), ())
    assert check_graph(graph_db, settings).ok


@pytest.mark.parametrize("shared", [False, True], ids=["unique", "shared"])
def test_several_at_once_all_succeed(
    graph_db: Database, papers: Callable[..., Settings], *, shared: bool
) -> None:
    """Seen to fail without the `_CREATED_MEANWHILE` of schema.py: IF NOT EXISTS is judged before the lock, and where
    keys are shared, the index of the first has the name of the constraint that the others try."""
    if shared:
        graph_db.write("UNWIND ['a', 'a'] AS doi CREATE (:Paper {doi: doi})")
    with ThreadPoolExecutor(4) as pool:
        reports = list(pool.map(lambda _: migrate_graph(graph_db, papers()), range(4)))
    assert [report.problems for report in reports] == [()] * 4
    created = [name for report in reports for name in report.created]
    assert {"Paper_doi_key", "EmbedPending_doi", "Paper_embedding_hash", INDEX, f"{INDEX}_text"} == set(
        created
    )


def test_shared_keys_get_an_index_and_a_note_with_their_number(
    graph_db: Database, papers: Callable[..., Settings]
) -> None:
    graph_db.write("UNWIND ['a', 'a', 'b', 'b', 'b', 'c'] AS doi CREATE (:Paper {doi: doi})")
    report = migrate_graph(graph_db, papers())
    assert report.ok
    assert ["2 keys of (:Paper {doi}) belong to several entities" in note for note in report.notes] == [True]
    key = indexes(graph_db)["Paper_doi_key"]
    assert (key.type, key.constraint) == ("RANGE", None)
    # Workers do not count at their boot: it would read every entity, in each of them.
    assert check_graph(graph_db, papers(), count_keys=False).notes == ()

    graph_db.write("MATCH (n:Paper) DETACH DELETE n")
    (note,) = migrate_graph(graph_db, papers()).notes
    assert "drop index `Paper_doi_key` and run neo4j-queue init" in note


def test_entities_that_can_never_be_embedded_are_counted(
    graph_db: Database, papers: Callable[..., Settings]
) -> None:
    graph_db.write("CREATE (:Paper {doi: 'a'}), (:Paper {doi: 7.5}), (:Paper)")
    (note,) = migrate_graph(graph_db, papers()).notes
    assert note.startswith("2 :Paper without a text or a whole number in `doi`")


def test_an_index_of_other_dimensions_is_an_error_with_both_numbers_and_stays(
    graph_db: Database, papers: Callable[..., Settings]
) -> None:
    migrate_graph(graph_db, papers(neo4j_vector_dimensions=8))
    for look in (migrate_graph, check_graph):
        (problem,) = look(
            graph_db, papers(neo4j_vector_dimensions=16, neo4j_similarity_function="cosine")
        ).problems
        assert "has 8 dimensions, the model gives 16" in problem
    config = indexes(graph_db)[INDEX].config
    assert config is not None
    assert config["vector.dimensions"] == 8


def vector_index(name: str, dimensions: int, similarity: str = "cosine", on: str = "Paper") -> str:
    return (
        f"CREATE VECTOR INDEX `{name}` FOR (n:{on}) ON n.embedding OPTIONS {{indexConfig: "
        f"{{`vector.dimensions`: {dimensions}, `vector.similarity_function`: '{similarity}'}}}}"
    )


WORDS = "CREATE FULLTEXT INDEX `{}` FOR (n:Paper) ON EACH [{}]"
TEXT = "n.doi, n.entityType, n.observations"


def follow(graph_db: Database, advice: str) -> dict[str, Any]:
    """Does what the advice says: runs its DROP statement; the settings that it names."""
    for statement in re.findall(r"DROP \w+ `\w+`", advice):
        graph_db.autocommit(statement)
    said = advice.partition("set ")[2]
    return {name.lower(): value for name, value in re.findall(r"(NEO4J_\w+)=(\w+)", said)}


@pytest.mark.parametrize(
    "there",
    [
        pytest.param([vector_index(INDEX, 8)], id="own index of another width"),
        pytest.param([vector_index("old", 8)], id="another index of another width"),
        pytest.param([vector_index("old", 256)], id="another index that fits"),
        pytest.param(
            [vector_index("old", 256), WORDS.format("old_text", TEXT)], id="a whole pair of another name"
        ),
        pytest.param(
            [vector_index("old", 8), WORDS.format("old_text", TEXT)], id="a whole pair of another width"
        ),
        pytest.param(
            [vector_index("old", 256), WORDS.format("old_text", "n.title")], id="a pair over other words"
        ),
        pytest.param([vector_index("old", 256, "euclidean")], id="another index that compares otherwise"),
        pytest.param([vector_index(INDEX, 256, "euclidean")], id="own index that compares otherwise"),
        pytest.param([vector_index(INDEX, 8, "euclidean")], id="own index of another kind altogether"),
        pytest.param([f"CREATE INDEX {INDEX} FOR (n:Paper) ON (n.title)"], id="the name is taken"),
        pytest.param(
            [f"CREATE INDEX {INDEX} FOR (n:Paper) ON (n.title)", vector_index("old", 8)],
            id="the name is taken, and an index of another width",
        ),
        pytest.param(
            [vector_index(INDEX, 256, on="Person"), WORDS.format(f"{INDEX}_text", "n.title")],
            id="the name is another label's",
        ),
    ],
)
def test_advice_about_the_indexes_of_search_is_one_thing_that_then_works(
    graph_db: Database, papers: Callable[..., Settings], there: list[str]
) -> None:
    for statement in there:
        graph_db.autocommit(statement)
    graph_db.autocommit("CALL db.awaitIndexes(30)")
    report = migrate_graph(graph_db, papers())
    (problem,) = report.problems
    assert problem in check_graph(graph_db, papers()).problems
    assert problem.endswith("and run neo4j-queue init")
    wanted = papers(**follow(graph_db, problem))
    assert migrate_graph(graph_db, wanted).problems == ()


def test_where_an_index_is_in_the_way_nothing_is_made(
    graph_db: Database, papers: Callable[..., Settings]
) -> None:
    """A uniqueness constraint for a label that was not meant refuses other people's nodes."""
    graph_db.autocommit(vector_index(INDEX, 256, on="Person"))
    before = indexes(graph_db).keys()
    report = migrate_graph(graph_db, papers())
    assert (report.ok, report.created) == (False, ())
    assert report.problems[0].startswith(f"NEO4J_VECTOR_INDEX={INDEX} is a VECTOR index on ['Person']")
    assert indexes(graph_db).keys() == before


@pytest.mark.parametrize(
    ("made", "told"),
    [
        pytest.param(
            [WORDS.format("theirs", TEXT)],
            f"full-text index theirs of another program covers the text: it is used, {INDEX}_text is not made",
            id="over the same properties",
        ),
        pytest.param(
            [f"CREATE CONSTRAINT {INDEX}_text FOR (n:Paper) REQUIRE n.title IS UNIQUE"],
            f"{INDEX}_text is a RANGE index on ['Paper'] ['title'], which another program has made: there is no "
            "search by words unless NEO4J_VECTOR_INDEX has another name",
            id="a constraint of our name",
        ),
        pytest.param(
            [f"CREATE FULLTEXT INDEX {INDEX}_text FOR (n:Person) ON EACH [n.title]"],
            f"{INDEX}_text is a FULLTEXT index on ['Person'] ['title'], which another program has made: there is "
            "no search by words unless NEO4J_VECTOR_INDEX has another name",
            id="our name, another label",
        ),
        pytest.param(
            [WORDS.format(f"{INDEX}_text", "n.title")],
            f"full-text index {INDEX}_text is over title, not doi, entityType, observations: run neo4j-queue init "
            "--yes, which drops it and makes it anew",
            id="our name and label, other properties",
        ),
    ],
)
def test_a_full_text_index_of_another_program_is_used_or_done_without(
    graph_db: Database, papers: Callable[..., Settings], made: list[str], told: str
) -> None:
    """Seen failing: nothing was made, and a line asked to drop the other program's index."""
    for statement in made:
        graph_db.autocommit(statement)
    graph_db.autocommit("CALL db.awaitIndexes(30)")
    before = indexes(graph_db)
    report = migrate_graph(graph_db, papers())
    assert report.problems == ()
    assert report.notes == (told,)
    assert {"Paper_doi_key", INDEX} <= set(report.created)
    after = indexes(graph_db)
    assert {name: after[name] for name in before} == before


def test_search_by_words_asks_the_index_that_is_there(
    graph_db: Database, papers: Callable[..., Settings]
) -> None:
    schema = GraphSchema.from_settings(papers())
    assert words_index(schema, indexes(graph_db)) is None
    graph_db.autocommit(WORDS.format("theirs", TEXT))
    assert words_index(schema, indexes(graph_db)) == "theirs"
    graph_db.autocommit("DROP INDEX theirs")
    migrate_graph(graph_db, papers())
    assert words_index(schema, indexes(graph_db)) == f"{INDEX}_text"


def test_our_own_full_text_index_follows_the_text_properties_when_a_person_says_so(
    graph_db: Database, papers: Callable[..., Settings]
) -> None:
    """Seen failing: one typing error in the text properties, and `init` dropped the index of the right ones."""
    migrate_graph(graph_db, papers())
    graph_db.autocommit("CREATE FULLTEXT INDEX theirs FOR (n:Paper) ON EACH [n.title]")
    changed = papers(embed_text_properties="title,abstract")
    (note,) = migrate_graph(graph_db, changed).notes
    assert note.startswith(
        f"full-text index {INDEX}_text is over doi, entityType, observations, not title, abstract"
    )
    assert indexes(graph_db)[f"{INDEX}_text"].covers("Paper", "doi", "entityType", "observations")

    report = migrate_graph(graph_db, changed, remake=True)
    assert (report.problems, report.created) == ((), (f"{INDEX}_text",))
    assert report.notes == (
        f"{INDEX}_text was over doi, entityType, observations: made anew over title, abstract",
    )
    made = indexes(graph_db)
    assert made[f"{INDEX}_text"].covers("Paper", "title", "abstract")
    assert made["theirs"].covers("Paper", "title")
    assert migrate_graph(graph_db, changed, remake=True).created == ()


def test_the_full_text_index_has_the_analyzer_of_the_settings(
    graph_db: Database, papers: Callable[..., Settings]
) -> None:
    """And another one is a note with the way out, which works."""
    migrate_graph(graph_db, papers())
    assert indexes(graph_db)[f"{INDEX}_text"].analyzer == "standard-no-stop-words"

    changed = papers(embed_fulltext_analyzer="cjk")
    report = migrate_graph(graph_db, changed)
    line = (
        f"full-text index {INDEX}_text has the analyzer standard-no-stop-words, EMBED_FULLTEXT_ANALYZER=cjk: "
        "run neo4j-queue init --yes, which drops it and makes it anew"
    )
    assert (report.problems, report.created, report.notes) == ((), (), (line,))
    assert check_graph(graph_db, changed).notes == (line,)

    report = migrate_graph(graph_db, changed, remake=True)
    assert (report.problems, report.created) == ((), (f"{INDEX}_text",))
    assert report.notes == (f"{INDEX}_text had the analyzer standard-no-stop-words: made anew with cjk",)
    assert indexes(graph_db)[f"{INDEX}_text"].analyzer == "cjk"
    again = migrate_graph(graph_db, changed, remake=True)
    assert (again.created, again.notes) == ((), ())


@pytest.mark.parametrize(
    ("analyzer", "meant"),
    [
        ("cjkk", "; did you mean cjk?"),
        ("x y`z", ""),
        ("Standard-no-stop-words", "; did you mean standard-no-stop-words?"),
    ],
)
def test_an_analyzer_that_the_server_has_not_is_said_before_anything_is_made(
    graph_db: Database, papers: Callable[..., Settings], analyzer: str, meant: str
) -> None:
    """Seen failing without the look: the server's own error, and the other indexes already made."""
    report = migrate_graph(graph_db, papers(embed_fulltext_analyzer=analyzer))
    (problem,) = report.problems
    assert problem.startswith(
        f"EMBED_FULLTEXT_ANALYZER={analyzer}: the server has no such analyzer{meant} (it has "
    )
    assert "cjk, " in problem
    assert report.created == ()
    assert INDEX not in indexes(graph_db)


def test_an_index_of_another_program_with_another_analyzer_is_used_and_said(
    graph_db: Database, papers: Callable[..., Settings]
) -> None:
    graph_db.autocommit(
        f"{WORDS.format('theirs', TEXT)} OPTIONS {{indexConfig: {{`fulltext.analyzer`: 'german'}}}}"
    )
    graph_db.autocommit("CALL db.awaitIndexes(30)")
    (note,) = migrate_graph(graph_db, papers(), remake=True).notes
    assert note == (
        f"full-text index theirs of another program covers the text: it is used, {INDEX}_text is not made; its "
        "analyzer is german, not standard-no-stop-words"
    )
    assert "theirs" in indexes(graph_db)


@pytest.mark.parametrize("dimensions", [8, 256])
def test_no_line_asks_to_drop_what_has_another_name_than_ours(
    graph_db: Database, papers: Callable[..., Settings], dimensions: int
) -> None:
    """Seen failing for the vector index of another width, the full-text index and the index of the key."""
    for statement in (
        vector_index("their_vectors", dimensions),
        WORDS.format("their_words", TEXT),
        "CREATE INDEX their_key FOR (n:Paper) ON (n.doi)",
    ):
        graph_db.autocommit(statement)
    graph_db.autocommit("CALL db.awaitIndexes(30)")
    report = migrate_graph(graph_db, papers())
    assert [line for line in (*report.problems, *report.notes) if "drop" in line.lower()] == []


def test_another_similarity_is_an_error(graph_db: Database, papers: Callable[..., Settings]) -> None:
    migrate_graph(graph_db, papers())
    (problem,) = check_graph(graph_db, papers(neo4j_similarity_function="euclidean")).problems
    assert "compares by cosine, NEO4J_SIMILARITY_FUNCTION=euclidean" in problem
    assert "set NEO4J_SIMILARITY_FUNCTION=cosine" in problem


def test_indexes_in_the_way_are_named_and_stay(graph_db: Database, papers: Callable[..., Settings]) -> None:
    graph_db.autocommit(vector_index("old_vectors", 256))
    graph_db.autocommit(
        "CREATE FULLTEXT INDEX old_words FOR (n:Paper) ON EACH [n.observations, n.doi, n.entityType]"
    )
    graph_db.autocommit("CREATE INDEX old_key FOR (n:Paper) ON (n.doi)")
    graph_db.autocommit("CALL db.awaitIndexes(30)")
    report = migrate_graph(graph_db, papers())
    assert names(report) == set()
    (vectors,) = report.problems
    assert "set NEO4J_VECTOR_INDEX=old_vectors" in vectors
    key, words = report.notes
    assert "the index old_key of another program" in key
    assert "full-text index old_words of another program" in words
    assert {"old_vectors", "old_words", "old_key"} <= indexes(graph_db).keys()


def test_what_a_wrong_key_left_behind_is_named_with_the_statement_that_drops_it(
    graph_db: Database, papers: Callable[..., Settings], request: pytest.FixtureRequest
) -> None:
    """Seen failing without the look: no line named them, and the constraint refused other people's nodes."""
    request.addfinalizer(lambda: graph_db.autocommit("DROP CONSTRAINT Author_mail_key IF EXISTS"))
    migrate_graph(graph_db, papers(embed_entity_key="tilte"))
    graph_db.autocommit(
        "CREATE CONSTRAINT Author_mail_key IF NOT EXISTS FOR (n:Author) REQUIRE n.mail IS UNIQUE"
    )
    migrate_graph(graph_db, papers())
    schema = GraphSchema.from_settings(papers())
    found = leftovers(schema, indexes(graph_db))
    # The tests' own schema, of :Entity by `name`, is of other settings too.
    assert {drop for what, drop in found if "Author" in what or "tilte" in what} == {
        "DROP INDEX `EmbedPending_tilte` IF EXISTS",
        "DROP CONSTRAINT `Paper_tilte_key` IF EXISTS",
    }
    for _, drop in found:
        if "tilte" in drop:
            graph_db.autocommit(drop)
    assert not [drop for _, drop in leftovers(schema, indexes(graph_db)) if "tilte" in drop]
    assert check_graph(graph_db, papers()).ok

"""Search by meaning, by words, or by both; by the half that can answer where the other one cannot."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from neo4j import Record
from neo4j.exceptions import DriverError, Neo4jError

from neo4j_queue.database import Database
from neo4j_queue.embedders.base import is_usable
from neo4j_queue.errors import InvalidAnswer, Neo4jQueueError, SettingsError, TemporarilyUnavailable
from neo4j_queue.errors.explain import EXIT_CONFIGURATION, exit_code_of, explain, is_temporary
from neo4j_queue.graph.answer import Hit, SearchAnswer, SearchCoverage
from neo4j_queue.graph.fusion import Fused, fuse, of_meaning, of_words
from neo4j_queue.graph.halves import STATEMENT_S, Half, Halves
from neo4j_queue.graph.indexes import indexes_in_time
from neo4j_queue.graph.keys import named
from neo4j_queue.graph.known import known
from neo4j_queue.graph.lucene import words_of
from neo4j_queue.graph.query_embedder import EmbedQuery
from neo4j_queue.graph.search_indexes import SearchIndexes, WantedIndexes
from neo4j_queue.graph.search_request import SearchMode, SearchRequest
from neo4j_queue.in_time import InTime
from neo4j_queue.log import get_logger
from neo4j_queue.names import DeletedProperty, VectorProperty
from neo4j_queue.text import TextRecipe, content_hash

# What the server knows by heart it tells within milliseconds. One that does not is away or frozen, and that is told
# before a provider is asked for anything.
LOOK_S = 2.5
FORBIDDEN = "Neo.ClientError.Security.Forbidden"
# How the server names what was thrown inside a procedure. The parser's complaint ends with its whole grammar.
THROWN = re.compile(r"Caused by: [\w.$]+: (?P<said>.*?)( Was expecting one of:|$)")
# A lexical error quotes the query.
SAID_CHARS = 200

HALVES = {
    SearchMode.SEMANTIC: (SearchMode.SEMANTIC,),
    SearchMode.KEYWORD: (SearchMode.KEYWORD,),
    SearchMode.HYBRID: (SearchMode.SEMANTIC, SearchMode.KEYWORD),
}
OTHER = {SearchMode.SEMANTIC: SearchMode.KEYWORD, SearchMode.KEYWORD: SearchMode.SEMANTIC}

log = get_logger()


class NoVectors(TemporarilyUnavailable):
    """Nothing has a vector yet: a semantic search could only be empty."""


@dataclass(frozen=True, slots=True)
class _Look:
    """What the server tells without looking at an entity."""

    indexes: SearchIndexes
    entities: int
    pending: int


class Search:
    """The search of one graph.

    `embed` makes the vectors of queries; None: nothing does, and words alone are searched. `recipe` makes the text by
    which a hit is seen to be stale.
    """

    def __init__(
        self,
        database: Database,
        recipe: TextRecipe,
        model: str,
        wanted: WantedIndexes,
        *,
        key: str,
        vector: VectorProperty,
        deleted: DeletedProperty,
        embed: EmbedQuery | None,
    ) -> None:
        self._database = database
        self._recipe = recipe
        self._model = model
        self._wanted = wanted
        self._vector = vector
        self._embed = embed
        self._halves = Halves(database, model, wanted.label, key, vector, deleted)
        self._in_time = InTime("the graph database")
        # Kept while both can be asked. When that is no longer so, the index's error says it.
        self._indexes: SearchIndexes | None = None

    def answer(self, request: SearchRequest, embed: EmbedQuery | None = None) -> SearchAnswer:
        """See `EntityGraph.search`."""
        look = self._in_time(self._look, LOOK_S)
        if not look.indexes.any:
            raise _error_of(look.indexes.vectors)
        mode = request.mode or _default(look.indexes)
        embed = embed or self._embed
        found: dict[SearchMode, Half] = {}
        missing: list[Neo4jQueueError] = []
        for half in HALVES[mode]:
            self._try(half, request, look, embed, found, missing)
        if not found and len(HALVES[mode]) == 1 and not request.lucene:
            self._try(OTHER[mode], request, look, embed, found, missing)
        if not found:
            if not isinstance(missing[0], NoVectors):
                raise missing[0]
            found[SearchMode.SEMANTIC] = Half({})
        return self._answered(request, look, mode, found, missing)

    # --- Before: what there is ---------------------------------------------------------------------------

    def _look(self) -> _Look:
        indexes = self._indexes or self._look_at_indexes()
        seen = known(partial(self._database.ask, timeout_s=LOOK_S), self._wanted.label)
        return _Look(indexes, seen.nodes, seen.outbox)

    def _look_at_indexes(self) -> SearchIndexes:
        try:
            there = indexes_in_time(self._database, LOOK_S)
        except Neo4jError as error:
            if error.code != FORBIDDEN:
                raise
            return self._wanted.by_name
        found = self._wanted.among(there.values())
        self._indexes = found if found.both else None
        return found

    # --- The halves --------------------------------------------------------------------------------------

    def _try(
        self,
        half: SearchMode,
        request: SearchRequest,
        look: _Look,
        embed: EmbedQuery | None,
        found: dict[SearchMode, Half],
        missing: list[Neo4jQueueError],
    ) -> None:
        """Adds what a half found to `found`, or to `missing` why it cannot answer. With `strict` it raises that."""
        try:
            if half is SearchMode.SEMANTIC:
                found[half] = self._by_meaning(request, look.indexes, embed)
            else:
                found[half] = self._by_words(request, look.indexes, fused=bool(found))
        except Neo4jQueueError as error:
            if request.strict:
                raise
            missing.append(error)
        except (Neo4jError, DriverError) as error:
            told = self._why(half, error)
            if half is SearchMode.KEYWORD and request.lucene and (said := _syntax_error(told, error)):
                raise ValueError(said) from error
            if request.strict:
                raise told from error
            missing.append(told)

    def _by_meaning(self, request: SearchRequest, indexes: SearchIndexes, embed: EmbedQuery | None) -> Half:
        index = indexes.vectors
        if not isinstance(index, str):
            raise index
        if embed is None:
            raise SettingsError(["nothing makes a vector of the query: give `embed`"])
        vector = self._embedded(embed, request.query)
        half = self._in_time(
            lambda: self._halves.nearest(index, vector, request.limit, request.filters), STATEMENT_S
        )
        if not half.current:
            raise NoVectors(f"no current entity has a vector of {self._model} yet")
        return half

    def _embedded(self, embed: EmbedQuery, query: str) -> list[float]:
        try:
            vector = [float(number) for number in embed(query)]
        except Neo4jQueueError:
            raise
        # The edge: providers and their clients raise all sorts, and words can answer.
        except Exception as error:
            told = f"the embedding provider: {explain(error)}"
            if exit_code_of(error) == EXIT_CONFIGURATION:
                raise SettingsError([told]) from error
            raise TemporarilyUnavailable(told) from error
        if not is_usable(vector, self._wanted.dimensions):
            raise InvalidAnswer(f"the query has no usable vector of {self._wanted.dimensions} numbers")
        return vector

    def _by_words(self, request: SearchRequest, indexes: SearchIndexes, *, fused: bool) -> Half:
        index = indexes.words
        if not isinstance(index, str):
            raise index
        words = [request.query]
        if not request.lucene:
            words = words_of(request.query, len(self._wanted.properties))
        if not words:
            return Half({})
        return self._in_time(lambda: self._of_words(index, words, request, fused=fused), STATEMENT_S)

    def _of_words(self, index: str, words: Sequence[str], request: SearchRequest, *, fused: bool) -> Half:
        limit, filters = request.limit, request.filters
        half = self._halves.by_words(index, " ".join(words), limit, filters)
        if not fused:
            return half
        if len(words) == 1:
            return replace(half, all_words=frozenset(half.scores))
        return replace(half, all_words=self._halves.having_all(index, words, limit, filters))

    def _why(self, half: SearchMode, error: Neo4jError | DriverError) -> Neo4jQueueError:
        """What an error of an index means: mostly that it was dropped since the last look."""
        self._indexes = None
        try:
            now = self._in_time(self._look_at_indexes, LOOK_S)
        except (Neo4jError, DriverError, TemporarilyUnavailable):
            return TemporarilyUnavailable(explain(error))
        index = now.vectors if half is SearchMode.SEMANTIC else now.words
        return TemporarilyUnavailable(explain(error)) if isinstance(index, str) else index

    # --- Afterwards: the answer --------------------------------------------------------------------------

    def _answered(
        self,
        request: SearchRequest,
        look: _Look,
        mode: SearchMode,
        found: dict[SearchMode, Half],
        missing: Sequence[Neo4jQueueError],
    ) -> SearchAnswer:
        semantic, keyword = found.get(SearchMode.SEMANTIC), found.get(SearchMode.KEYWORD)
        if semantic and keyword:
            search_type = SearchMode.HYBRID
            fused = fuse(semantic.scores, keyword.scores, keyword.all_words)
        elif keyword:
            search_type, fused = SearchMode.KEYWORD, of_words(keyword.scores)
        else:
            search_type, fused = SearchMode.SEMANTIC, of_meaning(semantic.scores if semantic else {})
        least = request.min_score or 0.0
        best = [each for each in fused if each.score >= least][: request.limit]
        hits = self._hits(best)
        reason = "; ".join(_in_one_line(error) for error in missing) or None
        if reason is not None:
            log.info("search_fell_back", asked=mode.value, search_type=search_type.value, reason=reason)
        cut = len(hits) < request.limit and any(half.cut for half in found.values())
        coverage = SearchCoverage(
            look.entities,
            look.pending,
            _name(look.indexes.vectors) if semantic else None,
            _name(look.indexes.words) if keyword else None,
            cut,
        )
        return SearchAnswer(hits, search_type, reason, coverage)

    def _hits(self, best: Sequence[Fused]) -> tuple[Hit, ...]:
        found: Iterable[Record] = self._in_time(
            lambda: self._halves.found([each.node for each in best]), STATEMENT_S
        )
        by_node = {row["node"]: row for row in found}
        return tuple(self._hit(each, by_node[each.node]) for each in best if each.node in by_node)

    def _hit(self, fused: Fused, row: Record) -> Hit:
        properties = {name: value for name, value in row["properties"].items() if name != self._vector.name}
        fresh = (
            row["embedded"]
            and not row["pending"]
            and properties.get(self._vector.model) == self._model
            and properties.get(self._vector.hash) == content_hash(self._recipe.text(properties))
        )
        return Hit(
            named(row["key"]),
            fused.score,
            fused.semantic,
            fused.keyword,
            not fresh,
            tuple(row["labels"]),
            properties,
        )


def _default(indexes: SearchIndexes) -> SearchMode:
    return SearchMode.HYBRID if isinstance(indexes.words, str) else SearchMode.SEMANTIC


def _syntax_error(told: Neo4jQueueError, error: Neo4jError | DriverError) -> str | None:
    """The line about a mistake in Lucene's syntax; None if the error has another reason.

    The parser throws errors of all sorts. Its mistakes are what is left where the index is there and the server is not
    in trouble.
    """
    thrown = THROWN.search(explain(error))
    if thrown is None or isinstance(told, SettingsError) or is_temporary(error):
        return None
    return f"the query is not in Lucene syntax: {thrown['said'][:SAID_CHARS]}"


def _name(index: str | Neo4jQueueError) -> str | None:
    return index if isinstance(index, str) else None


def _error_of(index: str | Neo4jQueueError) -> Neo4jQueueError:
    return index if isinstance(index, Neo4jQueueError) else SettingsError([index])


def _in_one_line(error: Neo4jQueueError) -> str:
    return " ".join(str(error).split())

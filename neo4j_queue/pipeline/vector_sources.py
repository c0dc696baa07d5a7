"""Where the vectors of a batch come from: this process's memory, another entity, and only then the provider.

The same text is not paid for twice. Within a batch it is asked for once; across batches and processes the lease
transaction sees to it that only one of them has a text in hand at a time, and the next one finds the vector.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from neo4j_queue.embedders.vector_cache import Flight, Key, VectorCache
from neo4j_queue.graph.entities import EntityText
from neo4j_queue.pipeline.batch_run import Saved
from neo4j_queue.pipeline.graph_calls import GraphCalls
from neo4j_queue.pipeline.provider_call import UNJUDGED, ProviderCall, TextResult, Vector


class VectorSources:
    """The sources of one pipeline. `wait_s` bounds the wait for a text that another thread of this process asks for:
    no request takes longer."""

    def __init__(
        self, cache: VectorCache, graph: GraphCalls, *, model: str, dimensions: int, wait_s: float
    ) -> None:
        self._cache = cache
        self._graph = graph
        self._model = model
        self._dimensions = dimensions
        self._wait_s = wait_s

    def get(self, texts: Sequence[EntityText], call: ProviderCall, saved: Saved) -> dict[str, TextResult]:
        """One result for each content hash of `texts`; counts in `saved` what was not asked for.

        Raises what the driver raises when the graph is away; faults of the provider are in the results.
        """
        first: dict[Key, EntityText] = {}
        for text in texts:
            first.setdefault(self._key(text.content_hash), text)
        with self._cache.flight(first) as flight:
            results = self._without_request(first, flight, saved)
            results |= self._asked([first[key] for key in flight.ours], call, flight, results)
            if flight.others:
                late = flight.wait(self._wait_s)
                saved.cached += len(late)
                results |= _copied({first[key].content_hash: vector for key, vector in late.items()})
                results |= self._asked([first[key] for key in flight.others], call, flight, results)
        saved.in_batch += len(texts) - len(first)
        return results

    def _without_request(
        self, texts: Mapping[Key, EntityText], flight: Flight, saved: Saved
    ) -> dict[str, TextResult]:
        """What is found in this process, or carried by an entity."""
        found = {texts[key].content_hash: vector for key, vector in flight.found.items()}
        saved.cached += len(found)
        known = [texts[key].content_hash for key in flight.ours if texts[key].known]
        stored = self._graph.copies(known)
        saved.other_entity += len(stored)
        flight.land({self._key(digest): vector for digest, vector in stored.items()})
        return _copied(found) | _copied(stored)

    def _asked(
        self, texts: Sequence[EntityText], call: ProviderCall, flight: Flight, had: Mapping[str, TextResult]
    ) -> dict[str, TextResult]:
        """The provider's answers for those of `texts` that have no result yet."""
        missing = [text for text in texts if text.content_hash not in had]
        if not missing:
            return {}
        answers = call.ask([text.text for text in missing])
        results = {text.content_hash: answers.get(text.text, UNJUDGED) for text in missing}
        flight.land({self._key(digest): r.vector for digest, r in results.items() if r.vector is not None})
        return results

    def _key(self, content_hash: str) -> Key:
        return (self._model, self._dimensions, content_hash)


def _copied(vectors: Mapping[str, Vector]) -> dict[str, TextResult]:
    return {digest: replace(UNJUDGED, vector=vector, copied=True) for digest, vector in vectors.items()}

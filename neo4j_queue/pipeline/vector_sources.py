"""Where the vectors of a batch come from: this process's memory, another entity, and only then the provider.

The same text is not paid for twice. Within a batch it is asked for once; across batches and processes the lease
transaction sees to it that only one of them has a text in hand at a time, and the next one finds the vector.

A text in parts takes as many inputs, in as many requests as they need. Those that are there when the batch ends (its
budget is used up, or its time) are kept, so that the next try goes on with the others.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from neo4j_queue.embedders.vector_cache import MEGABYTE, Flight, Key, VectorCache
from neo4j_queue.graph.entities import EntityText
from neo4j_queue.pipeline.batch_run import Saved
from neo4j_queue.pipeline.graph_calls import GraphCalls
from neo4j_queue.pipeline.provider_call import UNJUDGED, ProviderCall, TextResult, Vector
from neo4j_queue.pipeline.truncation import mean
from neo4j_queue.text import content_hash

# Parts of texts whose other parts are still to come: two texts of the most parts at 3,072 numbers.
PARTS_BYTES = 5 * MEGABYTE


class VectorSources:
    """The sources of one pipeline. `wait_s` bounds the wait for a text that another thread of this process asks for:
    no request takes longer; `parts_s` bounds the time in which a batch asks for further parts."""

    def __init__(
        self,
        cache: VectorCache,
        graph: GraphCalls,
        *,
        model: str,
        dimensions: int,
        wait_s: float,
        parts_s: float,
    ) -> None:
        self._cache = cache
        self._parts = VectorCache(PARTS_BYTES)
        self._parts_s = parts_s
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
        if any(text.parts for text in missing):
            answers = self._asked_in_parts(missing, call)
        else:
            answers = call.ask([text.text for text in missing])
        results = {text.content_hash: _of_text(text, answers) for text in missing}
        flight.land({self._key(digest): r.vector for digest, r in results.items() if r.vector is not None})
        return results

    def _asked_in_parts(self, texts: Sequence[EntityText], call: ProviderCall) -> dict[str, TextResult]:
        """The results of all inputs of these texts, request after request; shorter texts go first, for they are done
        with the first one."""
        began = call.monotonic()
        by_parts = sorted(texts, key=lambda text: len(text.parts))
        keys = {self._key(content_hash(part)): part for text in by_parts for part in text.inputs}
        with self._parts.flight(keys) as flight:
            answers = _copied({keys[key]: vector for key, vector in flight.found.items()})
            while (
                (wanted := _still_wanted(by_parts, answers))
                and call.rest is None
                and call.monotonic() - began < self._parts_s
            ):
                found = call.ask(wanted)
                answers |= found
                passed = {part: result.vector for part, result in found.items() if result.vector is not None}
                flight.land({self._key(content_hash(part)): vector for part, vector in passed.items()})
                # What failed and is not proven to be a text's own fault would fail for the others as well.
                if not found or any(r.vector is None and not r.proven for r in found.values()):
                    break
        return answers

    def _key(self, content_hash: str) -> Key:
        return (self._model, self._dimensions, content_hash)


def _still_wanted(texts: Sequence[EntityText], answers: Mapping[str, TextResult]) -> list[str]:
    """The inputs that have no answer yet, without those of texts that have a bad part."""
    bad = {part for part, result in answers.items() if result.vector is None}
    alive = [text for text in texts if bad.isdisjoint(text.inputs)]
    return list(dict.fromkeys(part for text in alive for part in text.inputs if part not in answers))


def _of_text(text: EntityText, answers: Mapping[str, TextResult]) -> TextResult:
    """The result of a text: its own, or what its parts come to. One bad part is the fault of the whole."""
    results = [answers.get(part, UNJUDGED) for part in text.inputs]
    if not text.parts:
        return results[0]
    vectors = [result.vector for result in results if result.vector is not None]
    if len(vectors) == len(results):
        lengths = [len(part) for part in text.parts]
        return TextResult(mean(vectors, lengths), copied=all(result.copied for result in results))
    without = [result for result in results if result.vector is None]
    return max(without, key=lambda result: (result.proven, result.fault is not None, result.max_batch or 0))


def _copied(vectors: Mapping[str, Vector]) -> dict[str, TextResult]:
    return {digest: replace(UNJUDGED, vector=vector, copied=True) for digest, vector in vectors.items()}

"""Search: how good its three ways are on the demo's graph, and how long it takes where there are many vectors."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from benchmarks import search_latency
from benchmarks.entities import pages
from benchmarks.options import Options
from benchmarks.report import Report, Table, Target
from benchmarks.stage import Stage
from neo4j_queue.demo import corpus
from neo4j_queue.embedders import Embedder, open_embedder
from neo4j_queue.graph import EntityGraph
from neo4j_queue.graph.entities import EntityInput, VectorWrite
from neo4j_queue.graph.fusion import DEPTH, RANK, SOME_WORDS_WEIGHT

PARTS = ("quality", *search_latency.PARTS)

QUESTIONS = Path(__file__).with_name("search_questions.json")
PAGE = 500
# A right answer that is further behind counts as not found: no person looks there.
LOOKED_AT = 50
# Names that are typed as they are: every so many of them in their order.
NAMES_EVERY = 146
FIRST = 5
# How far hybrid search may stay behind the better of its halves.
BEHIND = 0.02
# The weight of some words beside 1 for the meaning, and the constant: to show how much depends on each.
WEIGHTS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.7, 1.0)
RANKS = (5, 10, 20, 60)
WAYS = ("semantic", "keyword", "hybrid")

# Names, best first, by question.
Found = Mapping[str, Sequence[str]]


@dataclass(frozen=True, slots=True)
class Question:
    """A question and the names that are right answers to it."""

    text: str
    right: frozenset[str]

    def reciprocal(self, found: Sequence[str]) -> float:
        """One divided by the place of the first right answer."""
        places = (place for place, name in enumerate(found[:LOOKED_AT], 1) if name in self.right)
        return 1 / next(places, float("inf"))

    def recall(self, found: Sequence[str]) -> float:
        """The share of the right answers, as far as there is room for them, that is in the first places."""
        return len(self.right.intersection(found[:FIRST])) / min(FIRST, len(self.right))

    def answered(self, found: Sequence[str]) -> float:
        """1 if a right answer is in the first places."""
        return float(bool(self.right.intersection(found[:FIRST])))


def run(stage: Stage, options: Options) -> Report:
    """Measures the parts that are wanted."""
    report = Report("search", options.shown())
    if options.wants("quality"):
        _quality(stage, report)
    search_latency.run(stage, options, report)
    return report


def questions(names: frozenset[str]) -> list[Question]:
    """The judged questions, with those right answers that this version of Python has."""
    given = json.loads(QUESTIONS.read_text(encoding="utf-8"))["questions"]
    found = [Question(each["question"], names.intersection(each["right"])) for each in given]
    without = [each.text for each in found if not each.right]
    if without:
        raise RuntimeError(f"no right answer in this version of Python: {'; '.join(without)}")
    return found


def _quality(stage: Stage, report: Report) -> None:
    settings = stage.settings(embedding_provider="local")
    library = corpus.collect()
    asked = questions(frozenset(entry.name for entry in library.entries))
    with EntityGraph.from_settings(settings) as graph:
        stage.prepare_graph(graph.database, settings)
        stage.say(f"search: {len(library.entries):,} entities of the standard library, with vectors")
        _load(graph, library, open_embedder(settings))
        ways = {mode: _ask(graph, asked, mode) for mode in WAYS}
        names = sorted(entry.name for entry in library.entries)[::NAMES_EVERY]
        typed = [Question(name, frozenset({name})) for name in names]
        found = {mode: _ask(graph, typed, mode) for mode in WAYS}
        graph.database.autocommit(search_latency.WIPE)
    _show(report, asked, ways)
    _show_figures(report, f"{len(typed)} names, typed as they are", typed, found)
    _show_weights(report, asked, ways)


def _load(graph: EntityGraph, library: corpus.Corpus, embedder: Embedder) -> None:
    for entries in pages(library.entries, PAGE):
        graph.create_entities(EntityInput(e.name, e.entity_type, e.observations) for e in entries)
        texts = graph.read_texts([entry.name for entry in entries])
        vectors = embedder.embed([text.text for text in texts]).vectors
        graph.write_vectors(
            [VectorWrite(t.uid, t.source, t.content_hash, v) for t, v in zip(texts, vectors, strict=True)]
        )


def _ask(graph: EntityGraph, asked: Sequence[Question], mode: str) -> Found:
    return {
        question.text: [hit.uid for hit in graph.search(question.text, DEPTH, mode=mode, strict=True)]
        for question in asked
    }


def _show(report: Report, asked: Sequence[Question], ways: Mapping[str, Found]) -> None:
    title = f"{len(asked)} paraphrased questions about the standard library, local model"
    figures = _show_figures(report, title, asked, ways)
    each = Table("Place of the first right answer", {"question": "question", **{way: way for way in ways}})
    for question in asked:
        places = {way: _place(question, found[question.text]) for way, found in ways.items()}
        each.add(question=question.text, **places)
    report.tables.append(each)
    hybrid = figures["hybrid"]
    for at, name in enumerate((f"recall@{FIRST}", "MRR")):
        better = max(figures["semantic"][at], figures["keyword"][at])
        report.targets.append(
            Target(f"{name} of hybrid, beside the better half", hybrid[at], better - BEHIND, at_least=True)
        )


def _show_figures(
    report: Report, title: str, asked: Sequence[Question], ways: Mapping[str, Found]
) -> Mapping[str, tuple[float, float, float]]:
    columns = {
        "way": "way",
        "recall": f"recall@{FIRST}",
        "mrr": "MRR",
        "answered": f"a right answer in the first {FIRST}",
    }
    table = Table(title, columns)
    figures = {way: _figures(asked, found) for way, found in ways.items()}
    for way, (recall, mrr, answered) in figures.items():
        table.add(way=way, recall=recall, mrr=mrr, answered=answered)
    report.tables.append(table)
    return figures


def _show_weights(report: Report, asked: Sequence[Question], ways: Mapping[str, Found]) -> None:
    """The same halves fused in other ways. No entity has all words of one of these questions, so the product's own row
    is the hybrid row above."""
    columns = {"rank": "constant", "weight": "some words' weight", "recall": f"recall@{FIRST}", "mrr": "MRR"}
    own = f"the product: constant {RANK}, weight {SOME_WORDS_WEIGHT:g}"
    table = Table("The halves fused with other weights", columns, own)
    for rank in RANKS:
        for weight in WEIGHTS:
            fused = {
                q.text: _fused(ways["semantic"][q.text], ways["keyword"][q.text], rank, weight) for q in asked
            }
            recall, mrr, _ = _figures(asked, fused)
            table.add(rank=rank, weight=weight, recall=recall, mrr=mrr)
    report.tables.append(table)


def _fused(semantic: Sequence[str], keyword: Sequence[str], rank: int, weight: float) -> list[str]:
    scores: dict[str, float] = {}
    for half, counts in ((semantic, 1.0), (keyword, weight)):
        for place, name in enumerate(half, 1):
            scores[name] = scores.get(name, 0.0) + counts / (rank + place)
    return sorted(scores, key=scores.__getitem__, reverse=True)


def _figures(asked: Sequence[Question], found: Found) -> tuple[float, float, float]:
    measures: tuple[Callable[[Question, Sequence[str]], float], ...] = (
        Question.recall,
        Question.reciprocal,
        Question.answered,
    )
    recall, mrr, answered = (fmean(measure(q, found[q.text]) for q in asked) for measure in measures)
    return recall, mrr, answered


def _place(question: Question, found: Sequence[str]) -> int | None:
    reciprocal = question.reciprocal(found)
    return round(1 / reciprocal) if reciprocal else None

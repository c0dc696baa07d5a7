"""A real embedding model inside the process, without a network: the weights come with its package."""

import logging
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from neo4j_queue.embedders.base import Answer, validated
from neo4j_queue.errors import TemporarilyUnavailable
from neo4j_queue.providers import Profile

LOCAL_DIMENSIONS = 256
# The model pads the texts of a run to the longest one and holds 1 KB per token, twice. A token has at least one byte,
# so a run takes at most about 130 MB.
RUN_BYTES = 65_536

_loading = threading.Lock()


class LocalEmbedder:
    """WordLlama, 256 dimensions, loaded once per process at the first request (about three seconds)."""

    model = f"wordllama-{LOCAL_DIMENSIONS}"
    dimensions = LOCAL_DIMENSIONS

    def __init__(self, profile: Profile) -> None:
        self.profile = profile

    def warm_up(self) -> None:
        """Loads the model."""
        _model()

    def embed(self, texts: Sequence[str], *, query: bool = False) -> Answer:  # noqa: ARG002 - of the interface
        """See `Embedder.embed`. Vectors have unit length."""
        pairs: list[tuple[object, object]] = []
        for run in _runs(texts):
            vectors = _model().embed([texts[index] for index in run], norm=True, batch_size=len(run))
            pairs += zip(run, vectors.tolist(), strict=True)
        return Answer(validated(pairs, len(texts), LOCAL_DIMENSIONS))

    def reconnect(self) -> None:
        """There are no connections."""

    def close(self) -> None:
        """Does nothing: the model stays for the next embedder of the process."""


def _runs(texts: Sequence[str]) -> Iterator[list[int]]:
    """The indexes of texts of like length, in runs of a bounded padded size (a single long text may exceed it)."""
    sizes = [len(text.encode()) for text in texts]
    run: list[int] = []
    for index in sorted(range(len(texts)), key=sizes.__getitem__):
        if run and sizes[index] * (len(run) + 1) > RUN_BYTES:
            yield run
            run = []
        run.append(index)
    if run:
        yield run


def _model() -> Any:
    with _loading:  # two threads would load it twice
        return _load()


@cache
def _load() -> Any:
    spec = find_spec("wordllama")
    if spec is None or spec.origin is None:
        raise TemporarilyUnavailable("wordllama is not installed")
    with _root_logger_kept():
        from wordllama import WordLlama
    return WordLlama.load(cache_dir=Path(spec.origin).parent, disable_download=True)


@contextmanager
def _root_logger_kept() -> Iterator[None]:
    """Importing wordllama configures the root logger; its plain lines would mix with the JSON ones."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    try:
        yield
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)

"""A real HTTP server that speaks OpenAI's `/v1/embeddings` with invented vectors, and misbehaves as it is told to.

`neo4j-queue mock-provider` runs it for rehearsals. Tests and benchmarks hold the `ProviderServer` itself: they program
it and read its journal. The product never imports this package.
"""

from neo4j_queue.mock_provider.journal import Counts, Request, tokens_of, vector_for
from neo4j_queue.mock_provider.limits import OPENAI_LIMITS, Limits
from neo4j_queue.mock_provider.mishaps import Mishaps
from neo4j_queue.mock_provider.replies import FAULTS, MANGLES, Reply, error, mangled
from neo4j_queue.mock_provider.rules import Rules
from neo4j_queue.mock_provider.server import ProviderServer

__all__ = [
    "FAULTS",
    "MANGLES",
    "OPENAI_LIMITS",
    "Counts",
    "Limits",
    "Mishaps",
    "ProviderServer",
    "Reply",
    "Request",
    "Rules",
    "error",
    "mangled",
    "tokens_of",
    "vector_for",
]

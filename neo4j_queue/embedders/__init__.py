"""Where vectors come from: any OpenAI-compatible server, a local model, or a deterministic mock.

`describe` returns the model that the settings choose, `open_embedder` the embedder for it. Neither opens a connection
nor imports a heavy library: clients and models are loaded at the first request of a process, or by `warm_up`.
"""

import hashlib
import json
from dataclasses import replace
from importlib.util import find_spec

import structlog

from neo4j_queue.embedders.base import Answer, Embedder, ModelSpec, validated
from neo4j_queue.embedders.dialect import joined
from neo4j_queue.embedders.local import LOCAL_DIMENSIONS, LocalEmbedder
from neo4j_queue.embedders.mock import MOCK_DIMENSIONS, MockEmbedder
from neo4j_queue.embedders.openai import OpenAIEmbedder
from neo4j_queue.embedders.profiles import is_openai, profile_for
from neo4j_queue.embedders.surroundings import environment_problems
from neo4j_queue.errors import SettingsError
from neo4j_queue.providers import AUTO, BASE64, MODELS, OPENAI_HOST, Dialect, Profile
from neo4j_queue.settings import Settings
from neo4j_queue.settings.settings import INPUT_TOKENS_MIN

__all__ = [
    "Answer",
    "Embedder",
    "ModelSpec",
    "Profile",
    "describe",
    "environment_problems",
    "open_embedder",
    "profile_of",
    "validated",
]

PROVIDER_ADDRESS = f"https://{OPENAI_HOST}/v1"
# Servers without authentication still get a header, since the client insists on a key.
NO_KEY = "none"
# Further fields of a request that change no vector.
SILENT_FIELDS = frozenset({"user", "metadata", "tags", "safety_identifier"})


def describe(settings: Settings) -> ModelSpec:
    """The provider, the identity of the model as jobs and entities carry it, and the width of its vectors.

    Settings that give different vectors give different identities, so vectors of one are never taken for vectors of the
    other. Raises `SettingsError` if the width is not known.
    """
    match _provider(settings):
        case "mock":
            dimensions = settings.neo4j_vector_dimensions or MOCK_DIMENSIONS
            return ModelSpec("mock", f"mock-{dimensions}", dimensions)
        case "local":
            return ModelSpec("local", f"wordllama-{LOCAL_DIMENSIONS}", LOCAL_DIMENSIONS)
        case _:
            return _openai_spec(settings)


def profile_of(settings: Settings) -> Profile:
    """The limits of one provider request, and its dialect: the operator's where they are set, else the provider's.

    A prefix takes its share of the tokens: the limits are for the texts without it.
    """
    profile = profile_for(_provider(settings), _base_url(settings), settings.embedding_profile)
    profile = profile.overridden(
        settings.embed_batch_size, settings.embed_batch_tokens, settings.embed_input_tokens
    )
    profile = replace(profile, dialect=_dialect(settings, profile.dialect))
    prefix = max(
        len(each.encode()) for each in (profile.dialect.passage_prefix, profile.dialect.query_prefix)
    )
    if not prefix:
        return profile
    # Half a token per byte: words have fewer, and a prefix is made of words.
    tokens = -(-prefix // 2)
    input_tokens = max(profile.max_input_tokens - tokens, INPUT_TOKENS_MIN)
    request_tokens = max(profile.max_request_tokens - profile.max_inputs * tokens, input_tokens)
    return replace(profile, max_input_tokens=input_tokens, max_request_tokens=request_tokens)


def open_embedder(settings: Settings) -> Embedder:
    """The embedder that the settings choose. Raises `SettingsError` if they do not suffice for it."""
    spec = describe(settings)
    if spec.provider != "openai" and settings.embedding_provider == "auto" and not settings.mock_embeddings:
        reason = "OPENAI_API_KEY is not set" + (
            "" if spec.provider == "local" else ", wordllama not installed"
        )
        structlog.get_logger().warning(
            "embedding_provider_chosen", provider=spec.provider, model=spec.model, reason=reason
        )
    profile = profile_of(settings)
    match spec.provider:
        case "mock":
            return MockEmbedder(spec.dimensions, profile, latency_s=settings.mock_embedding_latency_ms / 1000)
        case "local":
            if not _local_is_installed():
                raise SettingsError(
                    ["EMBEDDING_PROVIDER=local: needs wordllama (pip install 'neo4j-queue[local]')"]
                )
            return LocalEmbedder(profile)
        case _:
            return OpenAIEmbedder(
                spec,
                profile,
                name=settings.openai_embedding_model,
                requested_dimensions=settings.openai_embedding_dimensions,
                base_url=_base_url(settings),
                api_key=_key(settings),
                timeout_s=settings.embed_request_timeout_ms / 1000,
                width_advice=_width_advice(settings),
                dialect=profile.dialect,
            )


def _provider(settings: Settings) -> str:
    if settings.mock_embeddings:
        return "mock"
    if settings.asks_a_provider:
        return "openai"
    if settings.embedding_provider != "auto":
        return settings.embedding_provider
    return "local" if _local_is_installed() else "mock"


def _openai_spec(settings: Settings) -> ModelSpec:
    name = settings.openai_embedding_model
    native = MODELS[name].dimensions if name in MODELS else None
    asked = settings.openai_embedding_dimensions
    dimensions = asked or native or settings.neo4j_vector_dimensions
    if dimensions is None:
        raise SettingsError(
            [
                f"OPENAI_EMBEDDING_MODEL={name}: the width of its vectors is not known here; "
                "set NEO4J_VECTOR_DIMENSIONS to it (or OPENAI_EMBEDDING_DIMENSIONS to ask for a width)"
            ]
        )
    identity = name if asked is None or asked == native else f"{name}@{asked}"
    return ModelSpec("openai", identity + _variant(settings), dimensions)


def _variant(settings: Settings) -> str:
    """The mark of settings that change the vectors which are stored: a prefix of the texts, fields of the body.

    What is said for queries alone changes no stored vector, and a profile is what its provider's models are made for.
    """
    fields = settings.embedding_extra_body or {}
    telling = {name: value for name, value in fields.items() if name not in SILENT_FIELDS}
    if not telling and settings.embed_passage_prefix is None:
        return ""
    said = json.dumps([settings.embed_passage_prefix, telling], sort_keys=True)
    return f"+{hashlib.sha256(said.encode()).hexdigest()[:8]}"


def _dialect(settings: Settings, known: Dialect) -> Dialect:
    """How the server is asked: what the settings say, over what is known of the provider."""
    extra = settings.embedding_extra_body or {}
    encoding = settings.embedding_encoding_format
    if encoding == AUTO:
        # base64 is four times cheaper to read. Some other servers answer it with wrong widths or a 400.
        encoding = BASE64 if is_openai(_base_url(settings)) else known.encoding
    return replace(
        known,
        encoding=encoding,
        passage_fields=joined(known.passage_fields, extra),
        query_fields=joined(known.query_fields, {**extra, **(settings.embedding_query_body or {})}),
        passage_prefix=settings.embed_passage_prefix or known.passage_prefix,
        query_prefix=settings.embed_query_prefix or known.query_prefix,
    )


def _width_advice(settings: Settings) -> str:
    if settings.openai_embedding_dimensions is not None:
        return (
            "the server does not keep to OPENAI_EMBEDDING_DIMENSIONS: unset it, "
            "and set NEO4J_VECTOR_DIMENSIONS to the model's width"
        )
    if settings.openai_embedding_model in MODELS:
        return (
            "the server has another model there: set OPENAI_EMBEDDING_MODEL to the name of that, "
            "and NEO4J_VECTOR_DIMENSIONS to its width"
        )
    return "set NEO4J_VECTOR_DIMENSIONS to the model's width, or OPENAI_EMBEDDING_MODEL to another model"


def _key(settings: Settings) -> str:
    if settings.openai_api_key is not None:
        return settings.openai_api_key.get_secret_value()
    if settings.openai_base_url is None:
        raise SettingsError(
            ["OPENAI_API_KEY: required for EMBEDDING_PROVIDER=openai without OPENAI_BASE_URL"]
        )
    return NO_KEY


def _base_url(settings: Settings) -> str:
    return settings.openai_base_url or PROVIDER_ADDRESS


def _local_is_installed() -> bool:
    return find_spec("wordllama") is not None

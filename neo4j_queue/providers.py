"""What is known of each provider: what a request to it may hold, its addresses, the widths and prices of its models.

Settings, embedders and prices read this one table, so it imports nothing of the product.

A limit that is too low costs requests or a text's end; one that is too high costs refused requests. Where a provider
documents nothing, the guess has its reason beside it, and `EMBED_BATCH_SIZE`, `EMBED_BATCH_TOKENS` and
`EMBED_INPUT_TOKENS` say better.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Self

# The encodings that a request can ask for; NO_ENCODING asks for none, and the server sends its own.
FLOAT, BASE64, NO_ENCODING = "float", "base64", "none"


@dataclass(frozen=True, slots=True)
class Dialect:
    """How a server wants to be asked, where OpenAI-compatible servers differ.

    `passage_fields` and `query_fields` are further fields of the body: for texts that are stored, and for the query of
    a search. The prefixes stand before such a text. `width_field` is the field that asks for a width.
    """

    encoding: str = FLOAT
    passage_fields: Mapping[str, object] = field(default_factory=dict)
    query_fields: Mapping[str, object] = field(default_factory=dict)
    passage_prefix: str = ""
    query_prefix: str = ""
    width_field: str = "dimensions"


PLAIN = Dialect()


@dataclass(frozen=True, slots=True)
class Profile:
    """The limits of one provider request: number of inputs, tokens in all, tokens of one input; and its dialect."""

    name: str
    max_inputs: int
    max_request_tokens: int
    max_input_tokens: int
    dialect: Dialect = PLAIN

    def overridden(self, inputs: int | None, tokens: int | None, input_tokens: int | None = None) -> Self:
        """The profile with `EMBED_BATCH_SIZE`, `EMBED_BATCH_TOKENS` and `EMBED_INPUT_TOKENS`, where they are set."""
        return replace(
            self,
            max_inputs=inputs or self.max_inputs,
            max_request_tokens=tokens or self.max_request_tokens,
            max_input_tokens=input_tokens or self.max_input_tokens,
        )


@dataclass(frozen=True, slots=True)
class Model:
    """The width of a vector when no `dimensions` are asked for, and US dollars per million input tokens."""

    dimensions: int
    price: float


@dataclass(frozen=True, slots=True)
class Prefixes:
    """The words that a family of models was trained with before a passage and before a query (its model cards)."""

    family: re.Pattern[str]
    passage: str
    query: str


PREFIXES = (
    # e5-mistral takes an instruction before queries alone.
    Prefixes(re.compile(r"(?:^|/)(?:multilingual-)?e5-(?!mistral)", re.IGNORECASE), "passage: ", "query: "),
    Prefixes(re.compile(r"nomic-embed-text", re.IGNORECASE), "search_document: ", "search_query: "),
)


def prefixes_of(model: str) -> Prefixes | None:
    """The prefixes that a model was trained with; None if it is not known to want any."""
    return next((each for each in PREFIXES if each.family.search(model)), None)


@dataclass(frozen=True, slots=True)
class Provider:
    """A service, or a server that people run themselves: its profile, how an address tells it, and its models.

    `hosts` are its names on the internet; every name below one of them counts too. `port` is where the server listens
    unless told otherwise; it counts on one's own machine or network alone, for on the internet anything may use 8000.
    """

    profile: Profile
    hosts: tuple[str, ...] = ()
    port: int | None = None
    models: Mapping[str, Model] = field(default_factory=dict)


# Instead of a profile's name: the one that the address tells.
AUTO = "auto"
OPENAI_HOST = "api.openai.com"
AZURE_HOSTS = ("openai.azure.com", "services.ai.azure.com", "cognitiveservices.azure.com")

# In-process providers have no limit of their own. 256 texts make a transaction of vector writes that is
# neither dominated by its round trip nor long enough to hold up others.
MOCK = Profile("mock", max_inputs=256, max_request_tokens=1_000_000, max_input_tokens=100_000)
LOCAL = Profile("local", max_inputs=256, max_request_tokens=1_000_000, max_input_tokens=100_000)

# Any other server: a request that takes a machine without an accelerator some seconds, not its deadline.
CUSTOM = Profile("custom", 256, 60_000, 8_192)

PROVIDERS = (
    # Embeddings reference of the API: 2,048 inputs, 300,000 tokens in all, 8,192 per input.
    Provider(
        Profile("openai", 2_048, 300_000, 8_192),
        hosts=(OPENAI_HOST,),
        # Prices as the model pages (developers.openai.com/api/docs/models) had them in July 2026 (ada-002: as others
        # quoted it in May 2026), without the rebate for offline batches.
        models={
            "text-embedding-3-small": Model(dimensions=1536, price=0.02),
            "text-embedding-3-large": Model(dimensions=3072, price=0.13),
            "text-embedding-ada-002": Model(dimensions=1536, price=0.10),
        },
    ),
    # Foundry REST reference, "Create an embedding": the same three figures.
    Provider(
        Profile("azure", 2_048, 300_000, 8_192),
        hosts=AZURE_HOSTS,
    ),
    # Inputs: its own refusal, "at most 100 requests can be in one batch" (geldata/gel#9032). Tokens: those that are
    # documented for the same models on Vertex.
    Provider(Profile("gemini", 100, 20_000, 2_048), hosts=("generativelanguage.googleapis.com",)),
    # Vertex guide "Get text embeddings": 250 inputs, 20,000 tokens in all, 2,048 per input.
    Provider(Profile("vertex", 250, 20_000, 2_048), hosts=("aiplatform.googleapis.com",)),
    # Model Studio, "OpenAI compatible - Embedding", text-embedding-v4: 10 rows, 8,192 tokens per row. A total is not
    # documented: a little under ten full rows.
    Provider(
        Profile("dashscope", 10, 80_000, 8_192),
        hosts=("dashscope.aliyuncs.com", "dashscope-intl.aliyuncs.com", "maas.aliyuncs.com"),
    ),
    # Nothing is documented. Inputs: 256 pass and 257 are refused, measured by rig-core (providers/mistral/embedding.rs;
    # others measured 512). Tokens in all: its own refusal, "Max is 16384" (aurelio-labs/semantic-router#297), and a
    # little less, as langchain_mistralai does, for its tokens are smaller than our estimate's. Per input: the model's
    # context, 8k.
    Provider(Profile("mistral", 256, 16_000, 8_192), hosts=("api.mistral.ai",)),
    # Nothing is documented but that a text over the model's context is cut, or refused since 0.13.5
    # (ollama/ollama#14186). 2,048 is the context of nomic-embed-text in its library, by far the most used; 64 texts and
    # 16,000 tokens are what a laptop's processor manages within the deadline of a request.
    Provider(Profile("ollama", 64, 16_000, 2_048), port=11434),
    # Nothing is documented. Its server loads models with a context of 2,048 unless told otherwise, and cuts longer
    # texts without an error (curvedinf/dir-assistant#19): cut here, the entity says so. The rest as for Ollama.
    Provider(Profile("lmstudio", 64, 16_000, 2_048), port=1234),
    # Refuses a text over `--max-model-len` (vllm-project/vllm#19798), which is the model's context unless told
    # otherwise: 8,192 is that of the usual embedding models. It queues the inputs of a request (256 sequences run at
    # once), so that neither their number nor their sum is limited: as much as a small accelerator manages within the
    # deadline.
    Provider(Profile("vllm", 256, 60_000, 8_192), port=8000),
    # A gateway without limits of its own: the one behind it may be any. The lowest common ones of the large providers
    # (Gemini's inputs, Mistral's tokens in all, OpenAI's per input).
    Provider(Profile("litellm", 100, 16_000, 8_192), port=4000),
    # API reference, "Text embeddings": 1,000 texts, 120,000 tokens in all (voyage-3-large, the least of its current
    # models), 32,000 per text. It refuses `encoding_format: float`, and calls the width `output_dimension`.
    Provider(
        Profile(
            "voyage",
            1_000,
            120_000,
            32_000,
            Dialect(
                encoding=NO_ENCODING,
                passage_fields={"input_type": "document"},
                query_fields={"input_type": "query"},
                width_field="output_dimension",
            ),
        ),
        hosts=("api.voyageai.com",),
    ),
    # Its retrieval models refuse a request without `input_type`. Inputs: as langchain-nvidia sends them. Per text: the
    # context of nv-embedqa-e5-v5, the least of them; the newer ones take 8,192 (EMBED_INPUT_TOKENS). In all: as full.
    Provider(
        Profile(
            "nvidia",
            50,
            25_600,
            512,
            Dialect(passage_fields={"input_type": "passage"}, query_fields={"input_type": "query"}),
        ),
        hosts=("integrate.api.nvidia.com", "ai.api.nvidia.com"),
    ),
    # Text Embeddings Inference: `--max-client-batch-size` 32 and `--max-batch-tokens` 16,384 unless told otherwise; 512
    # is the context of the BERT models that it is mostly run with. No port of its own: by name alone.
    Provider(Profile("tei", 32, 16_384, 512)),
    Provider(CUSTOM),
)

PROFILES = {provider.profile.name: provider.profile for provider in PROVIDERS}
# By name alone: gateways and deployments have the same models, most of them under the same names.
MODELS = {name: model for provider in PROVIDERS for name, model in provider.models.items()}

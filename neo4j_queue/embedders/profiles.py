"""What one request may hold, by provider: documented limits, or careful guesses where there are none.

A limit that is too low costs requests or a text's end; one that is too high costs refused requests. Where a provider
documents nothing, the guess has its reason beside it, and `EMBED_BATCH_SIZE`, `EMBED_BATCH_TOKENS` and
`EMBED_INPUT_TOKENS` say better.
"""

from ipaddress import ip_address
from urllib.parse import urlsplit

from neo4j_queue.embedders.base import Profile

AUTO = "auto"

# In-process providers have no limit of their own. 256 texts make a transaction of vector writes that is
# neither dominated by its round trip nor long enough to hold up others.
MOCK = Profile("mock", max_inputs=256, max_request_tokens=1_000_000, max_input_tokens=100_000)
LOCAL = Profile("local", max_inputs=256, max_request_tokens=1_000_000, max_input_tokens=100_000)

# Embeddings reference of the API: 2,048 inputs, 300,000 tokens in all, 8,192 per input.
OPENAI = Profile("openai", 2_048, 300_000, 8_192)
# Foundry REST reference, "Create an embedding": the same three figures.
AZURE = Profile("azure", 2_048, 300_000, 8_192)
# Inputs: its own refusal, "at most 100 requests can be in one batch" (geldata/gel#9032). Tokens: those that are
# documented for the same models on Vertex.
GEMINI = Profile("gemini", 100, 20_000, 2_048)
# Vertex guide "Get text embeddings": 250 inputs, 20,000 tokens in all, 2,048 per input.
VERTEX = Profile("vertex", 250, 20_000, 2_048)
# Model Studio, "OpenAI compatible - Embedding", text-embedding-v4: 10 rows, 8,192 tokens per row. A total is not
# documented: a little under ten full rows.
DASHSCOPE = Profile("dashscope", 10, 80_000, 8_192)
# Nothing is documented. Inputs: 256 pass and 257 are refused, measured by rig-core (providers/mistral/embedding.rs;
# others measured 512). Tokens in all: its own refusal, "Max is 16384" (aurelio-labs/semantic-router#297), and a little
# less, as langchain_mistralai does, for its tokens are smaller than our estimate's. Per input: the model's context, 8k.
MISTRAL = Profile("mistral", 256, 16_000, 8_192)
# Nothing is documented but that a text over the model's context is cut, or refused since 0.13.5 (ollama/ollama#14186).
# 2,048 is the context of nomic-embed-text in its library, by far the most used; 64 texts and 16,000 tokens are what a
# laptop's processor manages within the deadline of a request.
OLLAMA = Profile("ollama", 64, 16_000, 2_048)
# Nothing is documented. Its server loads models with a context of 2,048 unless told otherwise, and cuts longer texts
# without an error (curvedinf/dir-assistant#19): cut here, the entity says so. The rest as for Ollama.
LM_STUDIO = Profile("lmstudio", 64, 16_000, 2_048)
# Refuses a text over `--max-model-len` (vllm-project/vllm#19798), which is the model's context unless told otherwise:
# 8,192 is that of the usual embedding models. It queues the inputs of a request (256 sequences run at once), so that
# neither their number nor their sum is limited: as much as a small accelerator manages within the deadline.
VLLM = Profile("vllm", 256, 60_000, 8_192)
# A gateway without limits of its own: the one behind it may be any. The lowest common ones of the large providers
# (Gemini's inputs, Mistral's tokens in all, OpenAI's per input).
LITELLM = Profile("litellm", 100, 16_000, 8_192)
# Any other server: a request that takes a machine without an accelerator some seconds, not its deadline.
CUSTOM = Profile("custom", 256, 60_000, 8_192)

PROFILES = {
    profile.name: profile
    for profile in (
        OPENAI,
        AZURE,
        GEMINI,
        VERTEX,
        DASHSCOPE,
        MISTRAL,
        OLLAMA,
        LM_STUDIO,
        VLLM,
        LITELLM,
        CUSTOM,
    )
}

# Hosts and everything below them.
_BY_HOST = {
    "api.openai.com": OPENAI,
    "openai.azure.com": AZURE,
    "services.ai.azure.com": AZURE,
    "cognitiveservices.azure.com": AZURE,
    "generativelanguage.googleapis.com": GEMINI,
    "aiplatform.googleapis.com": VERTEX,
    "dashscope.aliyuncs.com": DASHSCOPE,
    "dashscope-intl.aliyuncs.com": DASHSCOPE,
    "maas.aliyuncs.com": DASHSCOPE,
    "api.mistral.ai": MISTRAL,
}
# The ports that these servers listen on unless told otherwise. They mean something on one's own machine or network
# alone: on the internet anything may listen on 8000.
_BY_PORT = {11434: OLLAMA, 1234: LM_STUDIO, 8000: VLLM, 4000: LITELLM}
# The machine around a container, by the names that container engines give it.
_OWN_MACHINE = frozenset({"host.docker.internal", "host.containers.internal"})


def profile_for(provider: str, base_url: str, name: str = AUTO) -> Profile:
    """The limits of a provider: those of the profile `name` (`EMBEDDING_PROFILE`), or by the base URL."""
    if name != AUTO:
        return PROFILES[name]
    if provider == "mock":
        return MOCK
    if provider == "local":
        return LOCAL
    host = host_of(base_url)
    for known, profile in _BY_HOST.items():
        if is_below(host, known):
            return profile
    port = urlsplit(base_url).port
    return _BY_PORT.get(port, CUSTOM) if port and is_nearby(host) else CUSTOM


def is_openai(base_url: str) -> bool:
    """Whether an address is the provider's own (regional hosts such as `eu.api.openai.com` included)."""
    return is_below(host_of(base_url), "api.openai.com")


def host_of(base_url: str) -> str:
    """The host name of an address, in lower case; empty when it has none."""
    return urlsplit(base_url).hostname or ""


def is_below(host: str, name: str) -> bool:
    """Whether `host` is `name` or a subdomain of it (not a name that merely ends alike)."""
    return host == name or host.endswith(f".{name}")


def is_nearby(host: str) -> bool:
    """Whether a host is this machine or one of its own network: no address of the internet, no domain in its name."""
    try:
        return not ip_address(host).is_global
    except ValueError:
        return bool(host) and ("." not in host or is_below(host, "localhost") or host in _OWN_MACHINE)

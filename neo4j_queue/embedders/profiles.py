"""What one request may hold, by provider: documented limits, or careful guesses where there are none."""

from urllib.parse import urlsplit

from neo4j_queue.embedders.base import Profile

# In-process providers have no limit of their own. 256 texts make a transaction of vector writes that is
# neither dominated by its round trip nor long enough to hold up others.
MOCK = Profile("mock", max_inputs=256, max_request_tokens=1_000_000, max_input_tokens=100_000)
LOCAL = Profile("local", max_inputs=256, max_request_tokens=1_000_000, max_input_tokens=100_000)

# Hosts and everything below them. OpenAI refuses above 2,048 inputs, 300,000 tokens per request, 8,192 per
# input; Gemini's compatible endpoint takes 100 inputs, DashScope's 10, Vertex gateways 250 inputs with 20,000
# tokens.
_BY_HOST = {
    "api.openai.com": Profile("openai", 2_048, 300_000, 8_192),
    "openai.azure.com": Profile("azure", 2_048, 300_000, 8_192),
    "generativelanguage.googleapis.com": Profile("gemini", 100, 20_000, 2_048),
    "aiplatform.googleapis.com": Profile("vertex", 250, 20_000, 2_048),
    "dashscope.aliyuncs.com": Profile("dashscope", 10, 80_000, 8_192),
    "dashscope-intl.aliyuncs.com": Profile("dashscope", 10, 80_000, 8_192),
}
# Ollama, vLLM, LM Studio, gateways: a request that takes a laptop's processor a few seconds, not its
# deadline.
CUSTOM = Profile("custom", max_inputs=256, max_request_tokens=60_000, max_input_tokens=8_192)


def profile_for(provider: str, base_url: str) -> Profile:
    """The limits of a provider; for `openai` by the host of the base URL."""
    if provider == "mock":
        return MOCK
    if provider == "local":
        return LOCAL
    host = host_of(base_url)
    return next((profile for name, profile in _BY_HOST.items() if is_below(host, name)), CUSTOM)


def is_openai(base_url: str) -> bool:
    """Whether an address is the provider's own (regional hosts such as `eu.api.openai.com` included)."""
    return is_below(host_of(base_url), "api.openai.com")


def host_of(base_url: str) -> str:
    """The host name of an address, in lower case; empty when it has none."""
    return urlsplit(base_url).hostname or ""


def is_below(host: str, name: str) -> bool:
    """Whether `host` is `name` or a subdomain of it (not a name that merely ends alike)."""
    return host == name or host.endswith(f".{name}")

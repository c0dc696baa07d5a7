"""The provider that an address belongs to, and so the limits of one request to it."""

from ipaddress import ip_address
from urllib.parse import parse_qsl, urlsplit, urlunsplit

from neo4j_queue.providers import (
    AUTO,
    AZURE_HOSTS,
    CUSTOM,
    LOCAL,
    MOCK,
    OPENAI_HOST,
    PROFILES,
    PROVIDERS,
    Profile,
)

# The machine around a container, by the names that container engines give it.
_OWN_MACHINE = frozenset({"host.docker.internal", "host.containers.internal"})


def profile_for(provider: str, base_url: str, name: str = AUTO) -> Profile:
    """The profile of a provider: the one called `name` (`EMBEDDING_PROFILE`), or the one of the base URL."""
    if name != AUTO:
        return PROFILES[name]
    if provider == "mock":
        return MOCK
    if provider == "local":
        return LOCAL
    host = host_of(base_url)
    port = urlsplit(base_url).port if is_nearby(host) else None
    for known in PROVIDERS:
        if any(is_below(host, name) for name in known.hosts) or (port and port == known.port):
            return known.profile
    return CUSTOM


def is_openai(base_url: str) -> bool:
    """True if an address is OpenAI's own (regional hosts such as `eu.api.openai.com` included)."""
    return is_below(host_of(base_url), OPENAI_HOST)


def endpoint(base_url: str) -> tuple[str, dict[str, str]]:
    """The address to which the client adds `/embeddings`, and the query that every request carries.

    People copy the whole address of the endpoint, `/embeddings` included; Azure's deployments need their `api-version`.
    """
    parts = urlsplit(base_url)
    path = parts.path.rstrip("/").removesuffix("/embeddings")
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    return urlunsplit((parts.scheme, parts.netloc, path, "", "")), query


def wants_key_header(base_url: str) -> bool:
    """True for a deployment of Azure: it takes a key as `api-key`, and `Authorization` for tokens alone."""
    return (
        any(is_below(host_of(base_url), host) for host in AZURE_HOSTS)
        and "/deployments/" in urlsplit(base_url).path
    )


def host_of(base_url: str) -> str:
    """The host name of an address, in lower case; empty if it has none."""
    return urlsplit(base_url).hostname or ""


def is_below(host: str, name: str) -> bool:
    """True if `host` is `name` or a subdomain of it (not a name that merely ends alike)."""
    return host == name or host.endswith(f".{name}")


def is_nearby(host: str) -> bool:
    """True if a host is this machine or one of its own network: no public address, no domain in its name."""
    try:
        return not ip_address(host).is_global
    except ValueError:
        return bool(host) and ("." not in host or is_below(host, "localhost") or host in _OWN_MACHINE)

"""Which provider an address means, and so what one request to it may hold."""

from ipaddress import ip_address
from urllib.parse import urlsplit

from neo4j_queue.providers import AUTO, CUSTOM, LOCAL, MOCK, OPENAI_HOST, PROFILES, PROVIDERS, Profile

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
    port = urlsplit(base_url).port if is_nearby(host) else None
    for known in PROVIDERS:
        if any(is_below(host, name) for name in known.hosts) or (port and port == known.port):
            return known.profile
    return CUSTOM


def is_openai(base_url: str) -> bool:
    """Whether an address is the provider's own (regional hosts such as `eu.api.openai.com` included)."""
    return is_below(host_of(base_url), OPENAI_HOST)


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

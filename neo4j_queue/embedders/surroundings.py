"""What the environment of a process does to the HTTP client: proxies and certificates that it cannot work with."""

import os
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from neo4j_queue.settings.readers import without_password

# The client reads these, in either case.
PROXIES = ("ALL_PROXY", "HTTPS_PROXY", "HTTP_PROXY")
CERTIFICATES = ("SSL_CERT_FILE", "SSL_CERT_DIR")
SCHEMES = ("http", "https")
# With an extra package of its own.
SOCKS_SCHEMES = ("socks5", "socks5h")


def environment_problems(environment: Mapping[str, str] | None = None) -> list[str]:
    """One line for each variable with which no client can be made, naming it and what to do."""
    env = os.environ if environment is None else environment
    # The client looks at no proxy then.
    direct = "*" in f"{env.get('NO_PROXY', '')},{env.get('no_proxy', '')}".replace(" ", "").split(",")
    return [
        *(line for name in _set(env, PROXIES) if not direct and (line := _proxy_problem(name, env[name]))),
        *(
            f"{name}={env[name]}: there is no such file or directory; unset it, or name the certificates"
            for name in _set(env, CERTIFICATES)
            if not Path(env[name]).exists()
        ),
    ]


def client_problems(error: Exception) -> list[str]:
    """The same, or the client's own words if no variable is known to be at fault."""
    said = without_password(str(error))
    return environment_problems() or [
        f"OPENAI_BASE_URL, or a proxy of the environment: no client can be made ({said})"
    ]


def _set(env: Mapping[str, str], names: tuple[str, ...]) -> list[str]:
    return [each for name in names for each in (name, name.lower()) if env.get(each, "").strip()]


def _proxy_problem(name: str, value: str) -> str | None:
    scheme, found, _ = value.strip().lower().partition("://")
    if not found or scheme in SCHEMES:  # without a scheme it counts as http
        return None
    shown = f"{name}={without_password(value.strip())}"
    if scheme not in SOCKS_SCHEMES:
        return f"{shown}: the client takes http, https and socks5 proxies; change it, or unset it for this program"
    return (
        None
        if find_spec("socksio")
        else f"{shown}: needs the package socksio; install it, or unset the variable"
    )

"""Names of entities as clients write them: text, or the number of a graph whose key is one."""


def key_of(name: str | int) -> str:
    """The key that is meant."""
    return name if isinstance(name, str) else str(name)

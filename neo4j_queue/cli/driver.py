"""Loads the database driver without numpy and its kin.

The driver imports them where they are installed, to take arrays as parameters. No command has an array for it, and they
cost a seventh of the processor time that `status` takes. The local model loads numpy afterwards, for itself.
"""

import sys

ARRAYS = ("numpy", "pandas", "pyarrow")


def load() -> None:
    """Imports the driver, if it is not there yet."""
    hidden = [name for name in ARRAYS if name not in sys.modules]
    # None in its place: an import fails at once, as where a package is not installed.
    sys.modules.update(dict.fromkeys(hidden))  # type: ignore[arg-type]
    try:
        import neo4j  # noqa: F401
    finally:
        for name in hidden:
            del sys.modules[name]

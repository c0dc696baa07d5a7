"""Loads what every command needs without what none needs: the first answer is to come within half a second.

The driver imports numpy and its kin where they are installed, to take arrays as parameters. No command has an array for
it, and they cost a seventh of the processor time that `status` takes. The local model loads numpy afterwards, for
itself. The logger imports rich's tracebacks, with a highlighter of source code: half a tenth of a second for pictures
of errors that the command line tells in one line.
"""

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager

ARRAYS = ("numpy", "pandas", "pyarrow")
# Loading makes half a million objects that all stay. Looking through them for garbage each 700 is a sixth of the time
# to the first answer; each 50,000 it is nothing, and a command that runs for long still finds its garbage.
OBJECTS_BETWEEN_LOOKS = 50_000


def load() -> None:
    """Imports the driver and the logger, if they are not there yet."""
    with _hidden(*ARRAYS):
        import neo4j  # noqa: F401
    with _hidden("rich"):
        import structlog  # noqa: F401


def collect_seldom() -> None:
    """For a process of the command line: see `OBJECTS_BETWEEN_LOOKS`."""
    gc.set_threshold(OBJECTS_BETWEEN_LOOKS)


@contextmanager
def _hidden(*modules: str) -> Iterator[None]:
    """These modules cannot be imported, as where a package is not installed; those that are loaded stay."""
    hidden = [name for name in modules if name not in sys.modules]
    # None in its place: an import fails at once.
    sys.modules.update(dict.fromkeys(hidden))  # type: ignore[arg-type]
    try:
        yield
    finally:
        for name in hidden:
            del sys.modules[name]

"""The product's `celeryconfig.py`, by its place: a file of this name in the working directory is not taken for it."""

from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

NAME = "celeryconfig"
PLACE = Path(__file__).resolve().parent.parent / f"{NAME}.py"


def __getattr__(name: str) -> Any:
    """`tasks.config:celeryconfig`, as the app asks for it: when the first setting is needed, and not before."""
    if name != NAME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[NAME] = _load()
    return globals()[NAME]


def foreign() -> str | None:
    """The path of another `celeryconfig.py` that Python would find first, which is not read."""
    spec = find_spec(NAME)
    if spec is None or spec.origin is None or Path(spec.origin).resolve() == PLACE:
        return None
    return spec.origin


def _load() -> ModuleType:
    spec = spec_from_file_location(NAME, PLACE)
    if spec is None or spec.loader is None:
        raise ImportError(f"{PLACE} cannot be loaded")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module

"""Reads the docstrings of the standard library: run as a program, prints one JSON object per line.

Importing three hundred modules is foreign code: some print, warn, register exit handlers or change global
state. So this file runs in a process of its own (`corpus.collect` starts it with `-I -S`, so that it sees the
standard library and nothing else) and imports nothing of this package.
"""

import importlib
import inspect
import json
import os
import pkgutil
import sys
import types
import warnings
from collections.abc import Iterator
from typing import Any, TextIO

# Left out, because importing them does something, or because they document nothing that a program would use.
NOT_IMPORTED = frozenset(
    {
        *("antigravity", "this"),  # open a browser, print a poem
        *("idlelib", "tkinter", "turtle", "turtledemo"),  # windows
        *("test", "tests", "pydoc_data"),
        *("ensurepip", "lib2to3"),  # an installer; a grammar compiler that writes caches
        "distutils",  # left the library in 3.12: without it the graph is nearly the same on every version
    }
)
# The halves of `os` for each platform: people know their functions as `os.*` and `os.path.*`.
PLATFORM_HALVES = frozenset({"posix", "nt", "posixpath", "ntpath", "genericpath", "nturl2path"})


def main(out: TextIO) -> None:
    """Writes every public thing of the standard library, sorted by name."""
    modules = {module.__name__: module for module in _import_all()}
    modules["os.path"] = os.path
    exports = sorted(_exports(modules), key=lambda export: (export[0].count("."), export[0]))
    # The shortest public name of a thing wins: `json.JSONDecoder`, not `json.decoder.JSONDecoder`.
    names: dict[int, str] = {}
    for name, thing in exports:
        names.setdefault(id(thing), name)
    records = {}
    for name, thing in exports:
        if names[id(thing)] == name:
            records.update({record["name"]: record for record in _describe(name, thing)})
    # Last, for two things may share a name: `unittest.main` is a class and a module.
    records.update({name: _record(name, "module", module.__doc__) for name, module in modules.items()})
    for name in sorted(records):
        out.write(json.dumps(records[name]) + "\n")
    out.flush()


def _import_all() -> Iterator[types.ModuleType]:
    for name in sorted(sys.stdlib_module_names - NOT_IMPORTED - PLATFORM_HALVES):
        if not name.startswith("_"):
            yield from _import(name)


def _import(name: str) -> Iterator[types.ModuleType]:
    try:
        module = importlib.import_module(name)
    except (Exception, SystemExit):  # noqa: BLE001 - foreign code: other platforms' modules raise all sorts
        return
    yield module
    for child in sorted(pkgutil.iter_modules(getattr(module, "__path__", ())), key=lambda child: child.name):
        if not child.name.startswith("_") and child.name not in NOT_IMPORTED:
            yield from _import(f"{name}.{child.name}")


def _exports(modules: dict[str, types.ModuleType]) -> Iterator[tuple[str, Any]]:
    """Public classes and functions with the names under which modules offer them."""
    for module_name, module in modules.items():
        listed = getattr(module, "__all__", None)
        for name in sorted(set(listed if listed is not None else vars(module))):
            thing = getattr(module, str(name), None)
            if str(name).startswith("_") or not (inspect.isclass(thing) or inspect.isroutine(thing)):
                continue
            if listed is not None or _belongs(thing, module_name):
                yield f"{module_name}.{name}", thing


def _belongs(thing: Any, module_name: str) -> bool:
    """Whether a module without `__all__` offers a thing, rather than having imported it for its own use."""
    home = str(getattr(thing, "__module__", None) or module_name)
    return home == module_name or home.startswith((f"{module_name}.", "_"))


def _describe(name: str, thing: Any) -> Iterator[dict[str, str]]:
    if not inspect.isclass(thing):
        yield _record(name, "function", thing.__doc__)
        return
    # Its own docstring: an inherited one would say the same thing of hundreds of exceptions.
    yield _record(name, "class", vars(thing).get("__doc__"))
    for method_name, method in vars(thing).items():
        # `__func__` is what a staticmethod or a classmethod wraps.
        function = getattr(method, "__func__", method)
        if not method_name.startswith("_") and inspect.isroutine(function):
            yield _record(f"{name}.{method_name}", "method", function.__doc__)


def _record(name: str, kind: str, doc: Any) -> dict[str, str]:
    return {"name": name, "type": kind, "doc": inspect.cleandoc(doc) if isinstance(doc, str) else ""}


def _private_stdout() -> TextIO:
    """A stream of our own on stdout; what the imported modules print goes nowhere."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    return out


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(_private_stdout())
    # Not `sys.exit`: exit handlers and threads of the imported modules have nothing to say here.
    os._exit(0)

"""Every package that is imported is declared in pyproject.toml: what others bring along today may be gone tomorrow."""

import ast
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib.metadata import packages_distributions
from itertools import chain
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
SHIPPED = ("neo4j_queue", "tasks", "celeryconfig")
OURS = {*SHIPPED, "benchmarks", "tests"}


def imported(source: str) -> set[str]:
    """The top-level packages that a program imports, at whatever depth of its functions."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module)
    return {name.partition(".")[0] for name in found} - set(sys.stdlib_module_names) - OURS


def undeclared(packages: Iterable[str], requirements: Iterable[str]) -> set[str]:
    """Those packages that no requirement brings by its own name."""
    declared = {_plain(re.split(r"[\[<>=!~;@ ]", requirement, maxsplit=1)[0]) for requirement in requirements}
    distributions = _distributions()
    return {
        name
        for name in packages
        if declared.isdisjoint(_plain(distribution) for distribution in distributions.get(name, [name]))
    }


@cache
def _distributions() -> Mapping[str, list[str]]:
    # Reads the files of every installed distribution: a second, and more on a cold disk.
    return packages_distributions()


def _plain(distribution: str) -> str:
    # Names of distributions are the same whatever their case, dots, dashes and underscores are.
    return re.sub(r"[-_.]+", "-", distribution).lower()


def sources(*names: str) -> Iterator[tuple[Path, str]]:
    for name in names:
        path = ROOT / name
        for file in path.rglob("*.py") if path.is_dir() else [path.with_suffix(".py")]:
            yield file.relative_to(ROOT), file.read_text(encoding="utf-8")


def requirements(*, of_development: bool) -> list[str]:
    project = PYPROJECT["project"]
    optional = chain.from_iterable(project["optional-dependencies"].values())
    found = [*project["dependencies"], *optional]
    return found + PYPROJECT["dependency-groups"]["dev"] if of_development else found


@pytest.mark.parametrize(
    ("names", "of_development"),
    [(SHIPPED, False), (("benchmarks", "tests"), True)],
    ids=["shipped", "for development"],
)
def test_what_is_imported_is_declared(names: tuple[str, ...], of_development: bool) -> None:
    """Failed for httpx2, httpcore2, kombu, billiard, python-dotenv, pydantic-core and numpy while none was declared."""
    known = requirements(of_development=of_development)
    missing = {
        str(file): names for file, source in sources(*names) if (names := undeclared(imported(source), known))
    }
    assert missing == {}, "declare these packages in pyproject.toml"


def test_an_import_inside_a_function_counts_and_a_relative_one_does_not() -> None:
    source = "import os\nfrom . import a\ndef f():\n    import yaml.nodes\n    from attr import define\n"
    assert imported(source) == {"yaml", "attr"}


def test_a_package_is_known_by_the_name_of_its_distribution() -> None:
    assert (
        undeclared({"dotenv", "pydantic_core"}, ["Python.Dotenv>=1", "pydantic-core; extra == 'x'"]) == set()
    )
    assert undeclared({"dotenv", "no_such"}, ["dotenv>=1", "no-such-thing"]) == {"dotenv", "no_such"}

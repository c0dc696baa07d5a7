"""The documents as a site, and the links between the files of the repository."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)#\s]+)(?:#[^)\s]*)?\)")
FENCE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
# Of the site only what its own check does not see: files that are no pages of it.
WITH_LINKS = sorted(
    path
    for folder in (REPOSITORY, *(REPOSITORY / name for name in ("docs", "deploy", "tests")))
    for path in (folder.glob("*.md") if folder == REPOSITORY else folder.rglob("*.md"))
)


def test_the_site_is_built_without_a_broken_link_or_a_page_outside_of_its_menu(tmp_path: Path) -> None:
    """Seen failing: a link to a heading that is not there, and a page that the menu does not name."""
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "mkdocs",
            "build",
            "--strict",
            "--quiet",
            "--site-dir",
            str(tmp_path / "site"),
        ],
        cwd=REPOSITORY,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    first = (tmp_path / "site" / "index.html").read_text(encoding="utf-8")
    assert "fonts.googleapis" not in first


@pytest.mark.parametrize("path", WITH_LINKS, ids=lambda path: str(path.relative_to(REPOSITORY)))
def test_every_link_to_a_file_leads_to_one(path: Path) -> None:
    text = FENCE.sub("", path.read_text(encoding="utf-8"))
    targets = [target for target in LINK.findall(text) if "://" not in target and "mailto:" not in target]
    assert [target for target in targets if not (path.parent / target).exists()] == []

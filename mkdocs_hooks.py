"""What the site needs beyond docs/: the files of the project's root as pages, and the runbooks in the menu."""

import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parent
# Files of the root that are pages of the site.
PAGES = {"README.md": "index.md", "SECURITY.md": "security.md", "CHANGELOG.md": "changelog.md"}
LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)#\s]+)(#[^)\s]*)?\)")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Puts each runbook into the menu."""
    names = sorted(path.name for path in (ROOT / "docs" / "runbooks").glob("*.md"))
    names.sort(key=lambda name: name != "README.md")
    runbooks: list[Any] = [f"runbooks/{name}" for name in names]
    config.nav = [
        {"Runbooks": runbooks} if "Runbooks" in section else section for section in config.nav or []
    ]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the pages that stand in the root."""
    for name, uri in PAGES.items():
        files.append(File.generated(config, uri, content=(ROOT / name).read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001
    """Links of the repository become links of the site; those to files that are no page become their names."""
    uri = page.file.src_uri
    source = next((name for name, made in PAGES.items() if made == uri), f"docs/{uri}")
    here = (ROOT / source).parent

    def link(found: re.Match[str]) -> str:
        text, target, anchor = found[1], found[2], found[3] or ""
        if "://" in target or target.startswith("mailto:"):
            return found[0]
        path = (here / target).resolve().relative_to(ROOT).as_posix()
        to = PAGES.get(path) or (path.removeprefix("docs/") if path.startswith("docs/") else None)
        if to is None or not to.endswith(".md"):
            return f"{text} (`{path}`)"
        up = "../" * uri.count("/")
        return f"[{text}]({up}{to}{anchor})"

    return LINK.sub(link, markdown)

"""Links of the pages to files of the repository that are not pages: checked here, and shown as their path."""

import re
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError

ROOT = Path(__file__).resolve().parents[2]
OUTSIDE = re.compile(r"\[([^\]]+)\]\((\.\./[^)#\s]+)(#[^)]*)?\)")


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    def shown(match: re.Match[str]) -> str:
        words, target = match[1], match[2]
        path = (Path(page.file.abs_src_path).parent / target).resolve()
        if not path.exists():
            raise PluginError(f"{page.file.src_path}: {target} does not exist")
        return f"{words} (`{path.relative_to(ROOT)}`)"

    return OUTSIDE.sub(shown, markdown)

"""Settings of the site that `make docs` builds with Sphinx; its source is the whole repository.

So a relative link works as it does in the repository, also to pages outside of this folder and to
other files, which are copied into the site. The navigation is made from the lists in
`docs/README.md`, so that all pages are plain Markdown.
"""

import re
from pathlib import Path

from sphinx.application import Sphinx

project = "docagent-rl"
extensions = ["myst_parser"]
include_patterns = ["*.md", "docs/**.md", "benchmarks/**.md"]
# not walked: environments and workspaces have very many files
exclude_patterns = [
    each.name
    for each in Path(__file__).parents[1].iterdir()
    if each.is_dir() and each.name not in ("docs", "benchmarks")
]
root_doc = "docs/README"
# the pages' names of headings, as in links on a forge
myst_heading_anchors = 4

html_theme = "furo"
html_title = "docagent-rl"
html_extra_path = ["index.html"]
html_copy_source = False
html_use_index = False
html_show_copyright = False

KIND = re.compile(r"^## (.+)\n((?:.*\n)*?)(?=## |\Z)", re.MULTILINE)
LISTED = re.compile(r"^- \[[^\]]+\]\(([^)#]+)\.md\)", re.MULTILINE)


def add_navigation(app: Sphinx, page: str, content: list[str]) -> None:
    """Add a tree of pages for each heading of the first page, from the list below it."""
    if page == root_doc:
        content[0] += "".join(_tree(*kind.groups()) for kind in KIND.finditer(content[0] + "\n"))


def _tree(caption: str, text: str) -> str:
    pages = "\n".join(LISTED.findall(text))
    return f"\n```{{toctree}}\n:hidden:\n:maxdepth: 1\n:caption: {caption}\n\n{pages}\n```\n"


def setup(app: Sphinx) -> None:
    """Register the hook."""
    app.connect("source-read", add_navigation)

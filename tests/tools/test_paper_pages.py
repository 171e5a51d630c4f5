"""docs/papers/ agrees with manifests and provenance, and its sizes with the budget."""

import pytest

from docagent_rl.lab.papers.estimates import SIZES
from docagent_rl.lab.papers.manifest import FOLDER, SHARED, paper_systems, read_paper
from tools.paper_pages import DOCS, ROOT, paper_page


@pytest.mark.parametrize("system", paper_systems())
def test_the_page_of_a_paper_is_fresh(system):
    page = (DOCS / f"{system}.md").read_text(encoding="utf-8")
    assert page == paper_page(read_paper(system)), "run python -m tools.paper_pages"


@pytest.mark.parametrize("system", paper_systems())
def test_a_page_has_every_part(system):
    page = (DOCS / f"{system}.md").read_text(encoding="utf-8")
    for part in ("Commands", "Data", "What can be compared", "Ablations", "Literal settings"):
        assert f"\n## {part}\n" in page
    for kind in ("printed", "departs", "silent"):
        assert f"| {kind}" in page
    assert "None" not in page.partition("## Settings here")[0]


@pytest.mark.slow
def test_sizes_are_those_of_the_budget():
    from tools.paper_sizes import sizes_text

    file = ROOT / "recipes" / FOLDER / SHARED / SIZES
    assert file.read_text(encoding="utf-8") == sizes_text(), (
        "run python -m tools.paper_pages --sizes"
    )

"""The committed page is built from the committed sources."""

import shutil

import pytest

from tools.viewer_build import BUILT, FRONTEND, stale, sums

STATIC = FRONTEND.parent / "static"


@pytest.fixture
def copied(tmp_path):
    """Return copies of sources and page, which may be changed."""
    frontend, static = tmp_path / "frontend", tmp_path / "static"
    shutil.copytree(FRONTEND, frontend, ignore=shutil.ignore_patterns("node_modules"))
    shutil.copytree(STATIC, static)
    return frontend, static


def test_the_committed_page_is_the_one_of_its_sources():
    assert stale(FRONTEND, STATIC) is None


def test_a_source_and_a_page_that_were_changed_are_noticed(copied):
    frontend, static = copied
    before = sums(frontend, static)
    (frontend / "src/main.tsx").rename(frontend / "src/begin.tsx")
    assert sums(frontend, static)["sources"] != before["sources"]
    (frontend / "src/begin.tsx").rename(frontend / "src/main.tsx")
    assert sums(frontend, static) == before
    with (static / "app.js").open("a") as page:
        page.write(" ")
    assert "built" in stale(frontend, static)
    (frontend / "src/more.ts").write_text("")
    assert "sources" in stale(frontend, static)


def test_the_page_runs_and_asks_nothing_from_elsewhere():
    texts = {name: (STATIC / name).read_text() for name in BUILT}
    index = texts["index.html"]
    assert 'src="app.js"' in index
    assert 'href="app.css"' in index
    assert "<script>" not in index
    assert "style=" not in index
    for name, text in texts.items():
        assert "</script" not in text.replace('<script defer src="app.js"></script>', ""), name
        assert "sourceMappingURL" not in text, name
        for scheme in ("https://", "http://"):
            places = {place.split('"')[0].split("`")[0] for place in text.split(scheme)[1:]}
            # names of XML, which nobody fetches
            assert all(place.startswith("www.w3.org/") for place in places), (name, places)

"""Two processes build the same index at once: one waits for the other, and the index is complete
afterwards.
"""

import pytest

from docagent_rl.retrieval.engines import build as building
from docagent_rl.retrieval.engines import lance
from tests.retrieval.engines.beside import HOLDS, STEPS, WAITS, Builder
from tests.retrieval.engines.killed import check_whole


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    """Make the changes of the two processes in this process, too."""
    monkeypatch.setattr(building, "_NUMBERS", 200)
    monkeypatch.setattr(lance, "INDEXED_FROM", 1)


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "index"


@pytest.mark.parametrize("engine", STEPS)
def test_a_builder_beside_another_waits_and_finds_nothing_to_do(engine, corpus, folder):
    first = Builder(engine, corpus, folder, hold=True)
    assert first.says() == HOLDS
    second = Builder(engine, corpus, folder)
    assert second.says() == WAITS
    first.go_on()
    assert first.says() == len(list(corpus.pages()))
    assert second.says() == 0
    assert (first.ended(), second.ended()) == (0, 0)
    check_whole(folder, corpus, engine)


@pytest.mark.slow
@pytest.mark.parametrize("engine", STEPS)
def test_the_builder_that_waits_has_the_last_word_about_other_documents(
    engine, corpus, make_store, tmp_path, folder
):
    changed = {"doc-03": ["gold of the cat"] * 3, "new": ["tree of iron", ""]}
    store = make_store(tmp_path / "changed", changed)
    first = Builder(engine, corpus, folder, hold=True)
    assert first.says() == HOLDS
    second = Builder(engine, store, folder)
    assert second.says() == WAITS
    first.go_on()
    first.says()
    assert second.says() == 5
    assert (first.ended(), second.ended()) == (0, 0)
    check_whole(folder, store, engine)


@pytest.mark.slow
@pytest.mark.parametrize("engine", STEPS)
def test_the_builder_that_waits_goes_on_when_the_other_is_killed(engine, corpus, folder):
    first = Builder(engine, corpus, folder, hold=True)
    assert first.says() == HOLDS
    second = Builder(engine, corpus, folder)
    assert second.says() == WAITS
    first.kill()
    new = second.says()
    assert isinstance(new, int)
    assert 0 < new < len(list(corpus.pages()))
    assert second.ended() == 0
    check_whole(folder, corpus, engine)

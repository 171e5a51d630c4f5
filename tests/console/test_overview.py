import os

import pytest
from omegaconf import OmegaConf

from docagent_rl.checks.recipe_check import composed_recipe
from docagent_rl.console.overview import next_commands, rl_facts


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


def test_the_command_of_an_evaluation_names_the_file_of_a_recipe_of_the_users(tmp_path):
    (tmp_path / "mine.yaml").write_text("defaults: [vrag_rl_qwen2_5_vl_7b, _self_]")

    def evaluation(name, **source):
        config = composed_recipe("vrag_rl_qwen2_5_vl_7b")
        sources = [{"path": "hydra.conf", "schema": "pkg", "provider": "hydra"}, source]
        hydra = {
            "job": {"config_name": name},
            "overrides": {"task": ["+profile=cpu"]},
            "runtime": {"config_sources": sources},
        }
        OmegaConf.set_struct(config, False)
        config.hydra = hydra
        return next_commands(config, tmp_path / "run")[1]

    own = {"path": str(tmp_path), "schema": "file", "provider": "command-line"}
    assert f"eval {os.path.relpath(tmp_path / 'mine.yaml')} --data" in evaluation("mine", **own)
    # a packaged recipe, although the folder is searched, too
    packaged = "vrag_rl_qwen2_5_vl_7b"
    assert f"eval {packaged} --data" in evaluation(packaged, **own)

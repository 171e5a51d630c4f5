"""The file of sizes against models that transformers builds, and what needs no such model."""

import subprocess
import sys
from dataclasses import replace

import pytest
import yaml

from docagent_rl.checks.model_sizes import (
    SIZES,
    adapter_parameters,
    as_values,
    from_values,
    known_sizes,
    sizes_of,
)
from docagent_rl.checks.passes import Model, Tower
from docagent_rl.checks.recipe_check import composed_recipe
from docagent_rl.models import families
from docagent_rl.models.layers import LayerBytes
from docagent_rl.training.settings.models import known_model, read_adapters
from tools.model_sizes import sizes_text

TOWER = Tower(layers=3, hidden=8, block=LayerBytes(300, 68), outside=7, patches=4, outputs=2)
MODEL = Model(
    parameters=10_000, vision=1_000, head=500, embeddings=500, hidden=10, kv=5, vocabulary=50,
    states=(LayerBytes(700, 30), *3 * (LayerBytes(500, 60),), LayerBytes(700, 30)),
    key_heads=5, linear_layers=2, tower=TOWER,
)  # fmt: skip


@pytest.mark.parametrize("model", [MODEL, replace(MODEL, tower=None)])
def test_sizes_are_the_same_after_they_were_written(model):
    assert from_values(yaml.safe_load(yaml.safe_dump(as_values(model)))) == model


def test_equal_layers_in_a_row_are_one_entry():
    assert as_values(MODEL)["states"] == [[1, 700, 30], [3, 500, 60], [1, 700, 30]]


def test_every_released_model_of_the_families_is_listed():
    assert {name for family in families() for name in family.released} <= set(
        yaml.safe_load(SIZES.read_text())
    )
    assert known_sizes("somebody/model") is None


def test_a_listed_model_has_the_sizes_of_the_one_that_is_built():
    built = known_model("Qwen/Qwen3-8B")
    assert known_sizes("Qwen/Qwen3-8B") == sizes_of(built)


def test_models_that_are_only_served_have_their_published_numbers_of_parameters():
    judge, extractor = map(known_sizes, ("Qwen/Qwen2.5-7B-Instruct", "Qwen/Qwen2.5-72B-Instruct"))
    assert (judge.parameters, judge.key_heads) == (7_615_616_512, 4)
    assert (extractor.parameters, extractor.key_heads, extractor.kv) == (72_706_203_648, 8, 1024)


def test_the_adapters_of_a_listed_model_are_those_that_peft_makes():
    model = composed_recipe("vrag_rl_qwen3_vl_4b", ["+lora=language"]).actor_rollout_ref.model
    assert adapter_parameters(model) == read_adapters(model).parameters > 0
    model.exclude_modules = None
    assert adapter_parameters(model) == read_adapters(model).parameters


@pytest.mark.slow
def test_the_file_is_fresh():
    assert SIZES.read_text(encoding="utf-8") == sizes_text(), "run python -m tools.model_sizes"


def test_a_budget_loads_neither_torch_nor_verl():
    program = (
        "import sys; from docagent_rl.checks.recipe_check import Cluster, budget_of_recipe; "
        "assert budget_of_recipe('alden_qwen2_5_vl_7b', (), Cluster(1, 8), 80 << 30); "
        "print(sorted({'torch', 'verl', 'transformers', 'ray'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"

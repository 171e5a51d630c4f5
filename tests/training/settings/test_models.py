import re

import pytest
from omegaconf import OmegaConf

from docagent_rl.base.errors import UserError
from docagent_rl.checks.recipe_check import RecipeFinding, composed_recipe, with_problem
from docagent_rl.checks.recipe_list import ROOT, recipe_names
from docagent_rl.config import DocAgentConfig, plain_section
from docagent_rl.lab.tiny.model import build_tiny_model
from docagent_rl.models import families
from docagent_rl.training.settings.models import (
    ENCODERS,
    LANGUAGE,
    PROJECTORS,
    adapter_problems,
    family_problems,
    known_heads,
    model_config,
    read_adapters,
    tower_problems,
)

VRAG, MODEL = "vrag_rl_qwen2_5_vl_7b", "actor_rollout_ref.model"
LORA = f"{MODEL}.lora_rank=8"


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    return build_tiny_model(tmp_path_factory.mktemp("models") / "tiny")


@pytest.mark.parametrize("name", [name for family in families() for name in family.released])
def test_released_models_have_the_heads_of_their_configurations(name, tmp_path):
    model_config(name).save_pretrained(tmp_path)
    assert known_heads(name) == known_heads(str(tmp_path))


def run(*overrides):
    return composed_recipe(VRAG, overrides)


def test_adapters_of_a_known_model_are_counted():
    """The expected number is rank 32 of the 28 layers of 7B: 32 x (in + out) for each of seven
    projections.
    """
    found = read_adapters(run("+lora=language").actor_rollout_ref.model)
    d, kv, inner = 3584, 512, 18944
    widths = [2 * d, d + kv, d + kv, 2 * d, *[d + inner] * 3]
    assert found.parameters == 28 * 32 * sum(widths) == 80_740_352
    assert found.tower == ()
    assert read_adapters(run().actor_rollout_ref.model) is None


def test_verls_default_adapts_the_tower_and_is_refused(tiny):
    path = f"{MODEL}.path={tiny}"
    assert len(read_adapters(run(LORA, path).actor_rollout_ref.model).tower) == 12
    (problem,) = tower_problems(run(LORA, path))
    assert re.search(r"12 modules.*visual.*\+lora=language", problem)
    for taken in (
        [LORA, f"{MODEL}.lora.merge=true"],
        [LORA, f"{MODEL}.exclude_modules='.*visual.*'"],
        [LORA, "actor_rollout_ref.actor.freeze_vision_tower=true"],
        ["+lora=language"],
        [],
    ):
        assert not list(tower_problems(run(path, *taken)))


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ([LORA, "trainer.v1.trainer_mode=docagent_separate_async"], "separate_async"),
        (["critic.enable=true", "critic.model.lora_rank=8"], r"critic\.model\.lora_rank"),
        ([f"{MODEL}.lora.rank=8"], r"lora\.rank.*lora_rank"),
    ],
)
def test_settings_that_train_or_play_something_else_are_refused(overrides, message):
    (problem,) = adapter_problems(run(*overrides))
    assert re.search(message, problem)


def test_a_module_that_no_model_has_is_named():
    with pytest.raises(UserError, match="nowhere"):
        read_adapters(run(LORA, f"{MODEL}.target_modules=[nowhere]").actor_rollout_ref.model)


@pytest.mark.parametrize("place", ["lora", "fine_tuning/lora"])
def test_the_overlays_leave_out_every_tower_and_no_language_model(place):
    read = OmegaConf.load(str(ROOT / place / "language.yaml"))
    model = read.model if "model" in read else read.actor_rollout_ref.model
    assert (model.target_modules, model.exclude_modules) == LANGUAGE
    for name in ENCODERS + PROJECTORS:
        for module in (f"{name}.blocks.0.mlp.up_proj", f"model.{name}.merger.mlp.0"):
            assert re.fullmatch(model.exclude_modules, module)
    for module in ("model.language_model.layers.0.mlp.up_proj", "model.layers.3.self_attn.q_proj"):
        assert not re.fullmatch(model.exclude_modules, module)


@pytest.mark.slow
def test_every_system_takes_the_overlays():
    # that of 24 GB is all of them, one over the other
    of_system = {name.partition("_qwen")[0]: name for name in recipe_names()}
    for name, size in [
        *((name, "gpu_24") for name in of_system.values()),
        ("vrag_rl_qwen3_vl_30b_a3b", "gpu_24"),
        *(("vrag_rl_qwen2_5_vl_7b", size) for size in ("language", "gpu_48", "gpu_80")),
    ]:
        made = composed_recipe(name, [f"+lora={size}"])
        assert with_problem(RecipeFinding(name), made).problem is None
        assert made.actor_rollout_ref.model.lora_rank == 32
        assert made.actor_rollout_ref.actor.optim.lr == 1e-5
        assert size == "language" or made.trainer.n_gpus_per_node == 1


@pytest.mark.parametrize(
    ("family", "ranks", "refused"),
    [("internvl", 2, True), ("internvl", 1, False), ("qwen3_vl", 2, False)],
)
def test_whole_images_are_trained_on_one_rank(family, ranks, refused):
    changes = [
        f"docagent.model_family={family}",
        f"trainer.n_gpus_per_node={ranks}",
        "docagent.workspace=w",
    ]
    run = composed_recipe("vrag_rl_qwen2_5_vl_7b", ["+profile=cpu", *changes])
    section = DocAgentConfig.parse(plain_section(run.docagent))
    problems = list(family_problems(run, section, None))
    assert len(problems) == refused
    assert all("n_gpus_per_node is 2" in problem for problem in problems)

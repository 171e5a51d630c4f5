from contextlib import nullcontext

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoModelForImageTextToText, LlavaConfig, Qwen2Config

from docagent_rl.base.errors import UserError
from docagent_rl.checks.preflight import check_statically
from docagent_rl.training.settings.models import CRITIC_KEY
from docagent_rl.training.workers.extensions import freeze
from tests.training.ranks import last_report

ALDEN, DOC_V_STAR, MM_DOC = "alden_qwen2_5_vl_7b", "doc_v_star_qwen2_5_vl_7b", "mm_doc_r1_qwen3_4b"
FROZEN = ("actor", "critic", "offload", "lora", "fsdp1", "fsdp1 lora")
SIZES = {"hidden_size": 32, "intermediate_size": 48, "num_attention_heads": 2}
TEXT = {"vocab_size": 64, "num_hidden_layers": 1, "num_key_value_heads": 1, **SIZES}


@pytest.fixture(scope="module")
def report(tmp_path_factory, warm_python) -> dict:
    """Return the report on updates of policies and critics in verl's engines, and on what their
    checkpoints restore.
    """
    return last_report(
        warm_python, "tests.training.workers.frozen_engine", tmp_path_factory.mktemp("frozen")
    )


@pytest.mark.slow
@pytest.mark.parametrize("which", FROZEN)
def test_a_frozen_tower_does_not_move_and_the_rest_does_also_after_resuming(report, which):
    found = report[which]
    assert [step["vision"] for step in found["moved"]] == [0, 0]
    assert min(step["language"] for step in found["moved"]) > 1e-3
    assert found["gradients"] == 0
    assert found["stepped"] == found["held"] == [False]
    assert found["loaded"] == found["resumed"] == {"vision": 0, "language": 0}
    if which in ("offload", "fsdp1"):  # with checkpointing: they change nothing
        assert found["norm"] == pytest.approx(report["actor"]["norm"], rel=1e-5)
    assert found["norm"] > 0


@pytest.mark.slow
def test_it_moves_where_it_is_not_frozen_whose_checkpoint_is_refused(report):
    found = report["actor, not frozen"]
    assert min(found["moved"][0].values()) > 1e-3
    assert found["gradients"] > 0
    assert found["stepped"] == found["held"] == [False, True]
    # the rollout server gets the tower either way
    assert report["actor"]["sent"] == found["sent"] > 0
    assert "actor_rollout_ref.actor.freeze" in report["other setting"]


def test_a_projector_beside_the_encoder_is_frozen_too():
    more = {"num_hidden_layers": 2, "image_size": 28, "patch_size": 14, "projection_dim": 32}
    vision = {"model_type": "clip_vision_model", **SIZES, **more}
    config = LlavaConfig(
        vision_config=vision, text_config={"model_type": "qwen2", **TEXT}, image_token_id=60
    )
    model = AutoModelForImageTextToText.from_config(config)
    assert freeze(model) == ["model.vision_tower", "model.multi_modal_projector"]
    trained = {name.split(".")[1] for name, p in model.named_parameters() if p.requires_grad}
    assert "language_model" in trained
    assert not trained & {"vision_tower", "multi_modal_projector"}
    ids = torch.tensor([[5, 60, 60, 60, 60, 6]])
    model(input_ids=ids, pixel_values=torch.rand(1, 3, 28, 28)).logits.sum().backward()
    got = {name.split(".")[1] for name, p in model.named_parameters() if p.grad is not None}
    assert got == trained


def test_a_text_model_has_nothing_to_freeze():
    model = AutoModelForCausalLM.from_config(Qwen2Config(**TEXT))
    with pytest.raises(UserError, match="Qwen2ForCausalLM"):
        freeze(model)


STRATEGY = "actor_rollout_ref.actor.strategy"
OFFLOAD = "actor_rollout_ref.model.enable_activation_offload"


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        (DOC_V_STAR, [f"{STRATEGY}=megatron"], r"actor\.freeze_vision_tower: .*megatron"),
        (
            ALDEN,
            [f"{CRITIC_KEY}=true", "critic.strategy=veomni"],
            r"critic\.freeze_vision_tower: .*veomni",
        ),
        (DOC_V_STAR, [f"{OFFLOAD}=true"], OFFLOAD),
        (ALDEN, [f"{CRITIC_KEY}=perhaps"], r"docagent\.critic\.freeze_vision_tower"),
        # a critic that does not run is not looked at
        (DOC_V_STAR, [f"{CRITIC_KEY}=true", "critic.strategy=veomni"], None),
    ],
)
def test_what_cannot_be_frozen_is_refused_before_a_run(recipe, name, values, message):
    with pytest.raises(UserError, match=message) if message else nullcontext():
        check_statically(recipe(name, *values))

from torch import nn
from verl.utils.vllm import utils

NAME = "language_model.layers.0.q_proj.base_layer.weight"


def test_packed_layers_of_the_language_model_keep_their_base():
    language, model = nn.Module(), nn.Module()
    language.packed_modules_mapping = {"qkv_proj": ["q_proj", "k_proj", "v_proj"]}
    model.language_model = language
    names = {NAME.replace("q_proj", "qkv_proj")}
    stripped = NAME.replace(".base_layer", "")
    assert (
        utils.resolve_weight_name.__wrapped__(model, NAME, names) == stripped
    )  # else the patch is not needed
    assert utils.resolve_weight_name(model, NAME, names) == NAME
    assert utils.resolve_weight_name(model, stripped, {stripped}) == stripped

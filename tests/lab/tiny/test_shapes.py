import pytest

from docagent_rl.base.errors import UserError
from docagent_rl.lab.tiny.model import build_model
from docagent_rl.lab.tiny.shapes import SHAPES, get_shape, smallest_shape, tiny_config
from docagent_rl.lab.tiny.tokenizer import build_tokenizer


def parameters(family, *, smallest):
    shape = get_shape(family)
    tokenizer = build_tokenizer([], shape.tokens, shape.attributes)
    model = build_model(tiny_config(tokenizer, family, smallest=smallest), seed=0)
    layers = model.config.get_text_config().num_hidden_layers
    return sum(each.numel() for each in model.parameters()), layers


@pytest.mark.parametrize("family", sorted(set(SHAPES) - {"gemma4"}))
def test_the_smallest_model_has_one_layer_of_each_kind(family):
    tiny, _ = parameters(family, smallest=False)
    smallest, layers = parameters(family, smallest=True)
    assert smallest < tiny / 5
    assert layers == len(set(get_shape(family).text.get("layer_types", ["full_attention"])))


def test_layers_that_share_keys_and_values_cannot_be_left_out():
    with pytest.raises(UserError, match="gemma4"):
        smallest_shape("gemma4")

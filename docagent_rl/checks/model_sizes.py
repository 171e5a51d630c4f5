"""Sizes of models: those of released models from a file, those of local ones by building them.

`model_sizes.yaml` lists every released model of the families and the models that recipes have
served, so that a budget needs neither torch nor transformers. `python -m tools.model_sizes` writes
it.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from docagent_rl.checks.passes import Model, Tower
from docagent_rl.models import Family, families
from docagent_rl.models.layers import LayerBytes, plain_layer
from docagent_rl.training.settings.models import LANGUAGE, known_model, rank, read_adapters

if TYPE_CHECKING:
    from torch import nn

SIZES = Path(__file__).with_name("model_sizes.yaml")
PER_RANK = "adapters_per_rank"
"""The key of the file with a model's LoRA parameters of rank 1, for `LANGUAGE`."""


@cache
def known_sizes(path: str) -> Model | None:
    """Return the sizes of a model in a folder, or of one in the file; None for any other."""
    if _is_folder(path):
        model = known_model(path)
        return None if model is None else sizes_of(model)
    found = _listed().get(path)
    return None if found is None else from_values(found)


def adapter_parameters(model: Any) -> int | None:
    """Return the parameters of the LoRA adapters for a section `model`; None if there are none, or
    if the model is not known.
    """
    path = str(model.path)
    chosen = (model.get("target_modules"), model.get("exclude_modules"))
    listed = None if _is_folder(path) else _listed().get(path, {}).get(PER_RANK)
    if rank(model) and listed and chosen == LANGUAGE:
        return rank(model) * listed
    adapters = read_adapters(model)
    return None if adapters is None else adapters.parameters


def _is_folder(path: str) -> bool:
    return (Path(path).expanduser() / "config.json").is_file()


@cache
def _listed() -> Mapping[str, Mapping[str, Any]]:
    return yaml.load(SIZES.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)


def as_values(model: Model) -> dict[str, Any]:
    """Return sizes as plain values: equal layers in a row as their number and their bytes."""
    runs = [
        [len(list(equal)), layer.kept, layer.working]
        for layer, equal in itertools.groupby(model.states)
    ]
    names = ("parameters", "vision", "head", "embeddings", "hidden", "kv", "key_heads")
    values = {name: getattr(model, name) for name in (*names, "vocabulary", "linear_layers")}
    tower = model.tower
    if tower is not None:
        block = [tower.block.kept, tower.block.working]
        rest = ("layers", "hidden", "outside", "patches", "outputs")
        values["tower"] = {"block": block, **{name: getattr(tower, name) for name in rest}}
    return {**values, "states": runs}


def from_values(values: Mapping[str, Any]) -> Model:
    """Return the sizes that `as_values` made plain."""
    tower = values.get("tower")
    layers = [(number, LayerBytes(*of)) for number, *of in values["states"]]
    apart = ("states", "tower", PER_RANK)
    read = {name: value for name, value in values.items() if name not in apart}
    return Model(
        **read,
        states=tuple(layer for number, layer in layers for _ in range(number)),
        tower=None if tower is None else _read_tower(tower),
    )


def _read_tower(values: Mapping[str, Any]) -> Tower:
    rest = {name: value for name, value in values.items() if name != "block"}
    return Tower(block=LayerBytes(*values["block"]), **rest)


def sizes_of(model: nn.Module) -> Model:
    """Count the sizes of a transformers model, which may be on the meta device."""
    built: Any = model
    config = built.config.get_text_config()
    vision = getattr(built.config, "vision_config", None)
    named = [(name, p.numel()) for name, p in model.named_parameters()]
    embeddings = built.get_input_embeddings().weight
    head = built.get_output_embeddings().weight
    family = _family_of(built.config)
    layer = family.layer if family else plain_layer
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    key_heads = _size(config, "num_key_value_heads", "num_attention_heads")
    return Model(
        parameters=sum(number for _, number in named),
        vision=sum(number for name, number in named if "visual." in name or "vision" in name),
        head=0 if embeddings is head else head.numel(),
        embeddings=embeddings.numel(),
        hidden=config.hidden_size,
        kv=key_heads * head_dim,
        vocabulary=config.vocab_size,
        states=tuple(layer(config, number) for number in range(config.num_hidden_layers)),
        key_heads=key_heads,
        linear_layers=sum(
            kind == "linear_attention" for kind in getattr(config, "layer_types", None) or ()
        ),
        tower=_tower_of(family, vision),
    )


def _family_of(config: Any) -> Family | None:
    return next((family for family in families() if config.model_type in family.model_types), None)


def _tower_of(family: Family | None, vision: Any) -> Tower | None:
    if family is None or family.vision is None or vision is None:
        return None
    return Tower(
        layers=_size(vision, "depth", "num_hidden_layers"),
        hidden=vision.hidden_size,
        block=family.vision.block(vision),
        outside=family.vision.outside(vision),
        patches=family.vision.patches,
        outputs=1 + len(getattr(vision, "deepstack_visual_indexes", None) or ()),
    )


def _size(config: Any, *names: str) -> int:
    """Return the first of these attributes that exists: families name the same size differently."""
    found = (getattr(config, name, None) for name in names)
    return next((size for size in found if isinstance(size, int)), 0)

"""Loading of models whose weights must all be there: a random projection scores nonsense and says nothing."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from docagent_rl.base.errors import UserError
from docagent_rl.retrieval.encoders.files import base_folder, read_json
from docagent_rl.retrieval.encoders.spec import EncoderSpec, Family

_PREFIX = "base_model.model."
_RETRIEVAL = "ForRetrieval"


@dataclass(frozen=True, slots=True)
class Form:
    """The classes of a family.

    Attributes:
        model: of colpali-engine.
        processor: of colpali-engine.
        model_type: in the checkpoint's config.json.
        hub_model: of transformers; None if it has none.
        hub_processor: of transformers.
        hub_model_type: in the config.json of its checkpoints.
    """

    model: str
    processor: str
    model_type: str
    hub_model: str | None = None
    hub_processor: str | None = None
    hub_model_type: str | None = None


FORMS: Mapping[Family, Form] = {
    Family.COLPALI: Form(
        *("ColPali", "ColPaliProcessor", "paligemma"),
        *("ColPaliForRetrieval", "ColPaliProcessor", "colpali"),
    ),
    Family.COLQWEN2: Form(
        *("ColQwen2", "ColQwen2Processor", "qwen2_vl"),
        *("ColQwen2ForRetrieval", "ColQwen2Processor", "colqwen2"),
    ),
    Family.COLQWEN2_5: Form("ColQwen2_5", "ColQwen2_5_Processor", "qwen2_5_vl"),
    Family.COLIDEFICS3: Form("ColIdefics3", "ColIdefics3Processor", "idefics3"),
    Family.COLMODERNVBERT: Form(
        *("ColModernVBert", "ColModernVBertProcessor", "modernvbert"),
        *("ColModernVBertForRetrieval", "ColModernVBertProcessor", "colmodernvbert"),
    ),
}


@dataclass(frozen=True, slots=True)
class Loaded:
    """A model and what prepares its input.

    Attributes:
        model: in evaluation mode.
        processor: of it.
        by_transformers: whether both are of transformers, not of colpali-engine.
    """

    model: Any
    processor: Any
    by_transformers: bool


def load_late_interaction(folder: Path, spec: EncoderSpec, named: str) -> Loaded:
    """Read a whole model, or an adapter and the model under it.

    Raises:
        UserError: it is of another family, or weights are missing.
    """
    import torch

    base = base_folder(folder, named=named)
    whole = base or folder
    config = read_json(whole / "config.json")
    by_transformers = any(str(name).endswith(_RETRIEVAL) for name in config.get("architectures") or ())
    form = FORMS[spec.family]
    _check_type(config, form, by_transformers, f"{named} ({whole})")
    model_class, processor_class = _classes(form, by_transformers)
    model, info = model_class.from_pretrained(
        whole, dtype=getattr(torch, spec.dtype), output_loading_info=True, local_files_only=True
    )
    supplied: Collection[str] = ()
    if base is not None:
        supplied = _add_adapter(model, folder, named)
    check_complete(info, named, supplied)
    if spec.family is Family.COLPALI and not by_transformers:
        # of the language model under it, whose words are not asked for: 257,216 a patch, and on no device
        model.model.lm_head = torch.nn.Identity()
    processor = processor_class.from_pretrained(folder)
    set_pixels(processor.image_processor, spec, named)
    if spec.page_prompt is not None:
        processor.visual_prompt_prefix = spec.page_prompt
    return Loaded(model.eval(), processor, by_transformers)


def check_complete(info: Mapping[str, Any], named: str, supplied: Collection[str] = ()) -> None:
    """Refuse a model with weights that were drawn at random.

    Args:
        info: of `from_pretrained`.
        named: what names the model.
        supplied: names that an adapter brought.

    Raises:
        UserError: some were.
    """
    missing = sorted(set(info["missing_keys"]) - set(supplied))
    wrong = sorted(str(key) for key in info["mismatched_keys"])
    if missing or wrong:
        names = ", ".join((missing + wrong)[:3])
        raise UserError(
            f"{named}: {len(missing)} weights are missing and {len(wrong)} have another shape ({names}), and "
            "would be drawn at random: it is no model of the family, or its download is not complete"
        )


def set_pixels(images: Any, spec: EncoderSpec, named: str) -> None:
    """Set the resolution of a processor of images.

    Qwen's keep the ratio of the sides and the number of pixels within bounds; Idefics3's bring the longer
    side to a length (the square root of `max_pixels`) and cut tiles; PaliGemma's know one size.

    Raises:
        UserError: the processor has no such bound.
    """
    bounds = {"shortest_edge": spec.min_pixels, "longest_edge": spec.max_pixels}
    given = {name: value for name, value in bounds.items() if value is not None}
    if not given:
        return
    size = dict(images.size)
    if size.keys() >= bounds.keys():
        images.size = {**size, **given}
        images.min_pixels, images.max_pixels = images.size["shortest_edge"], images.size["longest_edge"]
    elif "longest_edge" in size and spec.max_pixels is not None and spec.min_pixels is None:
        images.size = {"longest_edge": math.isqrt(spec.max_pixels)}
    else:
        raise UserError(f"{named}: its images have the size {size}; min_pixels and max_pixels are for others")


def image_tokens(processor: Any) -> set[str]:
    """Return the tokens that a processor replaces by an image or a video."""
    named = (getattr(processor, f"{kind}_token", None) for kind in ("image", "video"))
    # a string, or an added token of the tokenizers' library
    return {str(getattr(token, "content", token)) for token in named if token}


def _classes(form: Form, by_transformers: bool) -> tuple[Any, Any]:
    if by_transformers:
        import transformers

        return getattr(transformers, str(form.hub_model)), getattr(transformers, str(form.hub_processor))
    import colpali_engine.models as engine

    return getattr(engine, form.model), getattr(engine, form.processor)


def _check_type(config: Mapping[str, Any], form: Form, by_transformers: bool, named: str) -> None:
    asked = form.hub_model_type if by_transformers else form.model_type
    found = config.get("model_type")
    if found != asked:
        raise UserError(
            f"{named} is a model of type {found}, where {asked or form.model_type} is read: set family"
        )


def _add_adapter(model: Any, folder: Path, named: str) -> set[str]:
    """Put a LoRA adapter on a model; names of the weights that it brings whole.

    Adapters of 2024 name layers as transformers did then. transformers renames those of models, not those of
    adapters, and without this would go on with an adapter drawn at random.
    """
    from peft import PeftConfig
    from safetensors.torch import load_file

    file = folder / "adapter_model.safetensors"
    if not file.is_file():
        raise UserError(f"{named}: {file} is missing; fetch the model again")
    renamed = {
        _PREFIX + _todays_name(type(model), name.removeprefix(_PREFIX)): tensor
        for name, tensor in load_file(file).items()
    }
    info = model.load_adapter(peft_config=PeftConfig.from_pretrained(str(folder)), adapter_state_dict=renamed)
    lost = sorted(info.missing_keys) + sorted(info.unexpected_keys)
    if lost:
        raise UserError(
            f"{named}: {len(lost)} weights of the adapter do not fit its base ({', '.join(lost[:3])})"
        )
    for name, parameter in model.named_parameters():
        if "lora_" in name:
            parameter.data = parameter.data.to(model.dtype)
    return {name.removeprefix(_PREFIX) for name in renamed if "lora_" not in name}


def _todays_name(model_class: type, name: str) -> str:
    for old, new in getattr(model_class, "_checkpoint_conversion_mapping", {}).items():
        found, count = re.subn(old, new, name)
        if count:
            return found
    return name

"""Processors that are not in verl's list.

Upstream: verl 0.9.1, `verl/utils/tokenizer/tokenizer.py`, `hf_processor`. It matches the
processor's class against a list, because the position ids of those families come from a method of
their model. For any other class it logs a warning and returns no processor, and the policy would be
trained as a text model. But verl also supports models with one position per token (Gemma 4), which
do not need the list.

Here a processor that is not in the list is returned if transformers has an image-text model for the
configuration, and that model does not compute its own positions.

No longer needed once `hf_processor` returns such processors.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from docagent_rl.training.patching import TRAINING, Patch, on_import, replace


def _unlisted(path: str, options: dict[str, Any]) -> Any | None:
    from transformers import AutoConfig, AutoModel, AutoModelForImageTextToText, AutoProcessor

    try:
        config = AutoConfig.from_pretrained(path, **options)
        if type(config) not in AutoModelForImageTextToText._model_mapping:
            return None
        if hasattr(AutoModel._model_mapping[type(config)], "get_rope_index"):
            return None
        processor = AutoProcessor.from_pretrained(path, **options)
    except (OSError, ValueError, KeyError, ImportError):
        return None  # upstream has already logged what is wrong
    if getattr(processor, "image_processor", None) is None:
        return None
    processor.config = config  # as upstream binds it
    return processor


def _apply(module: ModuleType) -> None:
    listed = module.hf_processor

    def hf_processor(name_or_path: str, **options: Any) -> Any | None:
        """Load a model's processor; None if it has none, or positions that verl does not
        support.
        """
        found = listed(name_or_path, **options)
        return _unlisted(name_or_path, options) if found is None else found

    replace(module, "hf_processor", hf_processor)
    for package in ("verl.utils.tokenizer", "verl.utils"):  # other modules import it from these
        on_import(package, lambda copy: vars(copy).update(hf_processor=hf_processor))


PATCH = Patch(
    name="other_processors",
    package="verl",
    versions="==0.9.1",
    reference="verl/utils/tokenizer/tokenizer.py::hf_processor",
    reason="a vision model whose processor is not in verl's list, such as InternVL, gets none",
    target_module="verl.utils.tokenizer.tokenizer",
    apply=_apply,
    processes=TRAINING,
)

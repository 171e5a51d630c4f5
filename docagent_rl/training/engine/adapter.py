"""Merge a LoRA adapter with PEFT into the weights it was trained on.

Otherwise vLLM would play these weights without the adapter.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from docagent_rl.base.errors import UserError

SETTINGS = "adapter_config.json"
WEIGHTS = "adapter_model.safetensors"
LORA = "lora_adapter"
"""The folder in which verl saves an adapter, next to the weights it was trained on."""
_BESIDE = (
    *(
        "tokenizer*",
        "vocab*",
        "merges.txt",
        "*.model",
        "special_tokens_map.json",
        "added_tokens.json",
    ),
    *(
        "*preprocessor_config.json",
        "processor_config.json",
        "chat_template.*",
        "generation_config.json",
    ),
)
"""Files of a model other than its weights and its configuration."""
_LAST_WORDS = 400
_PREFIX = "base_model.model."
"""Prefix of a model's module names in an adapter."""


def has_adapter(folder: Path) -> bool:
    """Return whether a folder contains an adapter that PEFT saved."""
    return (folder / SETTINGS).is_file()


def add_adapter(base: Path, adapter: Path, target: Path) -> None:
    """Merge a LoRA adapter into the weights of `base`, in a separate process, and save to `target`.

    The result includes weights, configuration, tokenizer and processor.

    Raises:
        UserError: the adapter does not fit the model.
    """
    for file in (file for pattern in _BESIDE for file in base.glob(pattern) if file.is_file()):
        shutil.copyfile(file, target / file.name)
    command = ["docagent_rl.training.engine.adapter", str(base), str(adapter), str(target)]
    if problem := problem_of_merge(command, target):
        raise UserError(f"the adapter {adapter} cannot be merged into {base} {problem}")


def problem_of_merge(command: Sequence[str], target: Path) -> str | None:
    """Run a Python module that writes a model to a folder; return its error, or None."""
    ended = subprocess.run(
        [sys.executable, "-m", *command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, "TQDM_DISABLE": "1"},
        check=False,
    )
    if not ended.returncode and (target / "config.json").is_file():
        return None
    output = ended.stdout.decode(errors="replace").strip()[-_LAST_WORDS:]
    return f"(status {ended.returncode}): {output}"


def _merge(base: str, adapter: str, target: str) -> None:
    """Merge an adapter, in the process that `add_adapter` starts.

    Raises:
        ValueError: the adapter does not belong to this model.
    """
    import transformers
    from peft import PeftConfig, get_peft_model

    architecture = transformers.AutoConfig.from_pretrained(base).architectures[0]
    model = getattr(transformers, architecture).from_pretrained(
        base, dtype="auto", use_safetensors=True
    )
    names = getattr(model, "_checkpoint_conversion_mapping", {})
    settings = PeftConfig.from_pretrained(adapter)
    targets = _adapted(Path(adapter) / WEIGHTS)
    if targets <= {name for name, _ in model.named_modules()}:
        # verl's merger only writes the last part of each name, and "0" (of an MLP) would match
        # every module named "0"
        settings.target_modules = targets
        settings.exclude_modules = None
    added = get_peft_model(model, settings)
    # modules that the adapter lacks keep PEFT's initial weights, which add nothing
    extra = added.load_adapter(adapter, "default", key_mapping=names).unexpected_keys
    if extra:
        raise ValueError(
            f"{len(extra)} weights of the adapter do not belong to {architecture} "
            f"({', '.join(extra[:3])})"
        )
    added.merge_and_unload(safe_merge=True).save_pretrained(target)


def _adapted(weights: Path) -> set[str]:
    """Return the names, within the base model, of the modules that a PEFT file adapts."""
    from safetensors import safe_open

    with safe_open(weights, "pt") as found:
        return {name.removeprefix(_PREFIX).partition(".lora_")[0] for name in found.keys()}  # noqa: SIM118


if __name__ == "__main__":
    _merge(*sys.argv[1:])

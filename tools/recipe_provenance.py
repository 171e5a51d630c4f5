"""Report settings of recipes whose provenance is missing or wrong.

python -m tools.recipe_provenance
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from importlib.resources.abc import Traversable
from typing import Any

import typer
import yaml
from omegaconf import DictConfig, OmegaConf

from docagent_rl.checks.provenance import FOLDER, Provenance, ProvenanceSource, read_provenance
from docagent_rl.checks.recipe_check import composed_recipe, filled_recipe
from docagent_rl.checks.recipe_list import ROOT, recipe_names
from docagent_rl.config import plain_section

ENV = "docagent.env"
_HOW_IT_RUNS = re.compile(
    r"(docagent|trainer)\.(system|model_family|store|workspace|experiment_name|\w*_freq)$"
    r"|docagent\.(text_)?retriever(_cpu)?\.(index|backend|service|encoder|deadline_s|kind|cache\w*)"
    r"|docagent\.text_retriever_cpu|docagent\.roles\.\w+\.(backend|base_url|max_tokens|extra_body|timeout_s)"
    r"|docagent\.judge\.(kind|base_url|deadline_s|timeout_s|max_tokens|concurrency)"
    r"|.*\.(gpu_memory_utilization|enable_gradient_checkpointing|use_remove_padding|\w*max_token_len_per_gpu"
    r"|ppo_micro_batch_size_per_gpu|use_dynamic_bsz|param_offload|optimizer_offload|max_num_batched_tokens)$"
    rf"|{ENV}\.(variant|allow_\w+|display\.grid|prompts)\b"
)
"""Keys on which a paper has no opinion: folders of a run, services, limits of memory, and which
data exist.
"""


def flat(section: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the values of nested mappings by dotted key; an empty mapping is a value."""
    for key, value in section.items():
        if isinstance(value, Mapping) and value:
            yield from flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def main() -> None:
    """Print the problems of all recipes; the status is 1 if there are any."""
    names = recipe_names(kind=None)
    problems = [text for name in names for text in provenance_problems(name, composed_recipe(name))]
    typer.echo("\n".join(problems) or "every setting has provenance")
    raise SystemExit(1 if problems else 0)


def provenance_problems(name: str, config: DictConfig, root: Traversable = ROOT) -> list[str]:
    """Return a sentence for each setting whose provenance is missing or wrong.

    Args:
        name: the recipe.
        config: the composed recipe.
        root: the folder of recipes and provenance.
    """
    found = read_provenance(name, root)
    return [
        f"recipes/{FOLDER}/{name}.yaml: {text}" for text in _problems(name, found, config, root)
    ]


def _problems(name: str, found: Provenance, config: DictConfig, root: Traversable) -> Iterator[str]:
    departs = found.keys(ProvenanceSource.DEPARTS)
    values = filled_recipe(config)
    for key, printed in found.printed.items():
        same = OmegaConf.select(values, key) == printed.value
        if not same and key not in departs:
            yield (
                f"{key} is not the paper's {printed.value!r} ({printed.where}); say why under "
                "`departs`"
            )
        if same and key in departs:
            yield f"{key} is the paper's and does not depart"
    for key in sorted(departs - found.printed.keys()):
        yield f"{key} departs from nothing; add the paper's value under `printed`"
    known = found.keys() | found.printed.keys()
    for key in sorted(known):
        parent, _, leaf = key.rpartition(".")
        section = OmegaConf.select(values, parent) if parent else values
        if not isinstance(section, DictConfig) or leaf not in section:
            yield f"{key} is not a key of the recipe"
    for key in sorted(_opinions(name, values, root)):
        if not any(f"{key}.".startswith(f"{each}.") for each in known):
            yield f"{key} has no provenance; say where its value comes from"


def _opinions(name: str, values: DictConfig, root: Traversable) -> set[str]:
    """Return the keys of environment and recipe on which a paper could have an opinion."""
    text = (root / f"{name}.yaml").read_text(encoding="utf-8")
    sections = {key: value for key, value in yaml.safe_load(text).items() if key != "defaults"}
    keys = [key for key, _ in flat(sections)]
    if (env := OmegaConf.select(values, ENV)) is not None:
        keys += [key for key, _ in flat(plain_section(env), f"{ENV}.")]
    return {key for key in keys if not _HOW_IT_RUNS.match(key)}


if __name__ == "__main__":
    main()

"""Overrides that Hydra refuses, explained in one line: unknown keys, and unknown choices of groups.

Hydra's own message for a key with a typing error advises to add the key, which the run then
refuses.
"""

import re
from collections.abc import Callable, Sequence

from hydra.errors import MissingConfigException
from omegaconf import DictConfig, OmegaConf

from docagent_rl.base.errors import UserError
from docagent_rl.base.section import keys_in_section
from docagent_rl.base.text import did_you_mean
from docagent_rl.checks.recipe_list import ABLATIONS, ablation_names
from docagent_rl.config import DocAgentConfig
from docagent_rl.systems import get_system
from docagent_rl.training.settings.ledger import RL_FILE, SFT_FILE, ledger

_REFUSED = re.compile(r"Could not override '(?P<key>[\w.]+)'\.\nTo append")


def explained(error: Exception, plain: Callable[[], DictConfig]) -> str:
    """Return why a recipe cannot be composed with overrides.

    Args:
        error: Hydra's error.
        plain: composes the recipe without overrides, to look up its keys.
    """
    if isinstance(error, MissingConfigException) and "/" in str(error.missing_cfg_file):
        return _no_choice(str(error.missing_cfg_file), error.options or ())
    if found := _REFUSED.search(str(error)):
        return _unknown(found["key"], plain())
    return str(error)


def _no_choice(path: str, options: Sequence[str]) -> str:
    """Return which choices a group has; `path` is the group and the choice that does not exist."""
    group, _, choice = path.rpartition("/")
    system = path.removeprefix(f"{ABLATIONS}/").partition("/")[0]
    if path.startswith(f"{ABLATIONS}/"):  # Hydra does not list those in the folders of systems
        group, choice = ABLATIONS, path.removeprefix(f"{ABLATIONS}/")
        names = ablation_names()
        options = [name for name in names if name.startswith(f"{system}/")] or names
    hint = did_you_mean(choice, options)
    listed = f"{' There' if hint else '; there'} are {', '.join(options)}" if options else ""
    return f"{group}={choice} does not exist{hint}{listed}"


def _unknown(key: str, config: DictConfig) -> str:
    """Return what to do about an override of a key that the recipe does not contain."""
    *sections, name = key.split(".")
    known = _known_in(sections, config)
    if sections and not known and OmegaConf.select(config, ".".join(sections)) is None:
        # the typing error is in the name of a section
        return _unknown(".".join(sections), config)
    if name in known or not known:
        return f"{key}: the recipe does not set this key: override it with +{key}=..."
    section = "".join(f"{each}." for each in sections)
    hint = did_you_mean(name, known, section)
    return f"{key}: unknown key{hint or f'; {section}* can be ' + ', '.join(sorted(known))}"


def _known_in(sections: list[str], config: DictConfig) -> set[str]:
    """Return the keys of a section: those of the recipe, of verl's classes, and of our models."""
    path = ".".join(sections)
    found = OmegaConf.select(config, path) if path else config
    known = set(map(str, found)) if isinstance(found, DictConfig) else set()
    fine_tunes = "actor_rollout_ref" not in config
    if sections[:1] == ["docagent"]:
        return known if fine_tunes else known | _ours(sections, config)
    parts = (key.rpartition(".") for key in ledger(SFT_FILE if fine_tunes else RL_FILE).keys)
    return known | {name for section, _, name in parts if section == path}


def _ours(sections: list[str], config: DictConfig) -> set[str]:
    """Return the keys of the section `docagent` or of a section inside it."""
    if sections[:2] != ["docagent", "env"]:
        return set(keys_in_section(DocAgentConfig, sections[1:]))
    try:
        system = get_system(config.docagent.system)
    except UserError:  # the check of the system reports it
        return set()
    return set(keys_in_section(system.config_type, sections[2:]))

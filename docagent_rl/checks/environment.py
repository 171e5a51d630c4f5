"""Resolve what a configuration takes from environment variables, the clock and the working folder,
in the driver, where the user has set them.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, ListConfig, OmegaConf, read_write

from docagent_rl.base.errors import UserError
from docagent_rl.base.user_code import FILE, PACKAGE
from docagent_rl.rewards.custom.config import KEY

LOCAL = re.compile(r"(?<!\\)\$\{\s*(?:oc\.env|now)\s*:")
"""Resolvers whose values depend on the process: its environment variables and its clock."""
_VARIABLE = re.compile(r"\$\{\s*oc\.env\s*:\s*['\"]?(\w+)")
SECRET = frozenset(
    {
        "apikey",
        "credential",
        "credentials",
        "key",
        "passphrase",
        "passwd",
        "password",
        "secret",
        "token",
    }
)
"""Words that mark the name of a variable as that of a secret."""
KEYS_NAMED_BY = ("api_key_env", "token_env")


def resolve_environment(config: DictConfig) -> None:
    """Replace `${oc.env:...}` and `${now:...}` in a composed configuration with their present
    values.

    verl would resolve them in a Ray actor, whose environment is that of `ray start` on some node.
    Interpolations that only refer to other keys are kept; a value with both kinds is resolved as a
    whole. The section `hydra` is not changed.

    Raises:
        UserError: a value would come from a variable with a secret: Hydra saves the configuration
            with the run, and verl prints it.
        omegaconf.errors.OmegaConfBaseException: a variable is not set, and has no default.
    """
    plain: Any = OmegaConf.to_container(config)
    plain.pop("hydra", None)
    found = list(string_leaves(config, plain))
    secrets = {text for _, key, text in found if key in KEYS_NAMED_BY}
    for parent, key, text in found:
        if not LOCAL.search(text):
            continue
        for variable in _VARIABLE.findall(text):
            if variable in secrets or not SECRET.isdisjoint(variable.lower().split("_")):
                raise UserError(
                    f"{parent._get_full_key(key)} takes its value from the environment variable "
                    f"{variable}, which contains a secret, but the configuration is printed and "
                    "saved with the run. Instead set the variable in the environment of the run's "
                    "processes, before `ray start` on every node, and give only its name, for "
                    "example in docagent.judge.api_key_env (docs/security.md)"
                )
        value = parent[key]
        with read_write(parent):
            # escaped so that OmegaConf reads it back as it is
            parent[key] = (
                re.sub(r"(\\*)\$\{", r"\1\1\\${", value) if isinstance(value, str) else value
            )


def resolve_reward_file(config: DictConfig) -> None:
    """Make the path of the user's reward function absolute, as Ray starts processes elsewhere."""
    for key in (f"{KEY}.path", "docagent.reward_function.path"):
        path = OmegaConf.select(config, key)
        if path is not None and not str(path).startswith(PACKAGE):
            absolute = Path(str(path).removeprefix(FILE)).expanduser().absolute()
            if str(absolute) != str(path):
                with read_write(config):
                    OmegaConf.update(config, key, str(absolute))


def resolve_folders(config: DictConfig) -> None:
    """Make relative paths of folders and prompt files absolute, so that a stored run can be read
    from anywhere.

    Paths that are interpolated from others are not changed. A prompt is a path if it ends in
    `.yaml`.
    """
    written: Any = OmegaConf.to_container(config.docagent)
    for key in _folder_keys(written):
        path = _at(written, key)
        given = isinstance(path, str) and path and "${" not in path and "://" not in path
        if given and (not key.endswith("prompt") or path.endswith(".yaml")):
            absolute = Path(path).expanduser().absolute()
            with read_write(config):
                OmegaConf.update(config, f"docagent.{key}", str(absolute))


def _folder_keys(section: Mapping[str, Any]) -> Iterator[str]:
    yield from ("workspace", "run_dir", "store", "shown_store", "prompt", "judge.prompt")
    yield from (f"roles.{name}.prompt" for name in section.get("roles") or {})
    for key in ("retriever", "text_retriever"):
        yield f"{key}.index"
        yield from (f"{key}.parts.{name}.index" for name in (_at(section, f"{key}.parts") or {}))


def _at(section: Any, key: str) -> Any:
    for name in key.split("."):
        section = section.get(name) if isinstance(section, Mapping) else None
    return section


def string_leaves(node: Any, plain: Any) -> Iterator[tuple[DictConfig | ListConfig, Any, str]]:
    """Yield every string of a configuration as it is written, with its parent node and its key."""
    for key, value in plain.items() if isinstance(plain, dict) else enumerate(plain):
        if isinstance(value, dict | list):
            yield from string_leaves(node._get_node(key), value)
        elif isinstance(value, str):
            yield node, key, value

"""Find trackers that would fail, or be silently skipped, after all models have been loaded."""

import netrc
import os
import re
import socket
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from urllib.parse import urlsplit

from omegaconf import DictConfig, OmegaConf

from docagent_rl.endpoints.http_client import proxy_variable, public_url

_VARIABLES = "ray_kwargs.ray_init.runtime_env.env_vars"
_ANSWER_S = 10.0
_WANDB = "https://api.wandb.ai"
_PORTS = {"http": 80, "https": 443}

Environment = Mapping[str, str]


def access_problems(config: DictConfig) -> Iterator[str]:
    """Name trackers without a key on this machine, or whose server does not respond.

    Keys are searched where the trackers search: in variables of the environment and of the run's
    Ray, and in the files that their login commands write.
    """
    given = OmegaConf.select(config, _VARIABLES) or {}
    environment = {**os.environ, **{name: str(value) for name, value in given.items()}}
    chosen = config.trainer.logger
    for name in chosen if OmegaConf.is_list(chosen) else [chosen]:
        if (find := _ACCESS.get(name)) and (problem := find(environment)):
            yield f"trainer.logger: {problem}, or remove {name}"


def _wandb(environment: Environment) -> str | None:
    if environment.get("WANDB_MODE", "").lower() in ("offline", "disabled", "dryrun"):
        return None
    folder = Path(environment.get("WANDB_CONFIG_DIR", "~/.config/wandb")).expanduser()
    for file in (
        Path(environment.get("WANDB_DIR", ".")) / "wandb" / "settings",
        folder / "settings",
    ):
        if re.search(
            r"^\s*(mode\s*=\s*(offline|disabled)|disabled\s*=\s*true)\s*$",
            _text(file),
            re.MULTILINE,
        ):
            return None
    host = urlsplit(environment.get("WANDB_BASE_URL", _WANDB)).hostname or ""
    if any(environment.get(name) for name in ("WANDB_API_KEY", "WANDB_IDENTITY_TOKEN_FILE")):
        return None
    if _logged_in(Path(environment.get("NETRC", "~/.netrc")), host):
        return None
    return (
        f"wandb has no key for {host}, and would ask for one after loading all models: set "
        "WANDB_API_KEY, run `wandb login`, set WANDB_MODE=offline"
    )


def _mlflow(environment: Environment) -> str | None:
    url = environment.get("MLFLOW_TRACKING_URI", "")
    parts = urlsplit(url)
    if parts.scheme not in _PORTS or proxy_variable(url):
        return None
    try:
        where = (parts.hostname or "", parts.port or _PORTS[parts.scheme])
        socket.create_connection(where, timeout=_ANSWER_S).close()
    except (OSError, ValueError) as error:
        return (
            f"there is no mlflow server at MLFLOW_TRACKING_URI={public_url(url)} ({error}), and "
            "verl would continue without it: start the server, correct the address"
        )
    return None


def _swanlab(environment: Environment) -> str | None:
    if environment.get("SWANLAB_MODE", "cloud") != "cloud" or environment.get("SWANLAB_API_KEY"):
        return None
    if (Path(environment.get("SWANLAB_SAVE_DIR", "~/.swanlab")).expanduser() / ".netrc").is_file():
        return None
    return "swanlab has no key: set SWANLAB_API_KEY, run `swanlab login`, set SWANLAB_MODE=local"


def _clearml(environment: Environment) -> str | None:
    if environment.get("CLEARML_API_ACCESS_KEY") or environment.get("CLEARML_OFFLINE_MODE"):
        return None
    if Path(environment.get("CLEARML_CONFIG_FILE", "~/clearml.conf")).expanduser().is_file():
        return None
    return (
        "clearml has no key: set CLEARML_API_ACCESS_KEY and CLEARML_API_SECRET_KEY, run "
        "`clearml-init`"
    )


def _volcengine(environment: Environment) -> str | None:
    names = ("VOLC_ACCESS_KEY_ID", "VOLC_SECRET_ACCESS_KEY", "MLP_TRACKING_REGION")
    missing = [name for name in names if not environment.get(name)]
    return (
        f"vemlp_wandb needs variables that are not set: set {', '.join(missing)}"
        if missing
        else None
    )


_ACCESS: Mapping[str, Callable[[Environment], str | None]] = {
    "wandb": _wandb,
    "mlflow": _mlflow,
    "swanlab": _swanlab,
    "clearml": _clearml,
    "vemlp_wandb": _volcengine,
}


def _logged_in(file: Path, host: str) -> bool:
    try:
        return netrc.netrc(file.expanduser()).authenticators(host) is not None
    except (OSError, netrc.NetrcParseError):
        return False


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""

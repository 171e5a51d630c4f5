"""The systems that can be trained, by name; each has its own folder."""

from collections.abc import Mapping

from docagent_rl.base.errors import UserError
from docagent_rl.base.user_code import load_attribute
from docagent_rl.envs.system import System

SYSTEMS: Mapping[str, str] = {
    name: f"{__name__}.{name}:SYSTEM"
    for name in ("alden", "doc_v_star", "mm_doc_r1", "unidoc_rl", "vrag_rl")
}
"""The published systems; each is imported on first use."""

DEFAULT_SYSTEM = "vrag_rl"
"""The system whose tiny model is made by default, and for systems without a scripted policy."""

DEFAULT_TEXT_SYSTEM = "mm_doc_r1"
"""The system whose tiny model is made for systems without a scripted policy whose model reads text.
"""


def get_system(name: str) -> System:
    """Return a system by name, or a custom `System` instance by `package.module:ATTRIBUTE`."""
    if ":" in name:
        return _imported(name)
    try:
        path = SYSTEMS[name]
    except KeyError:
        raise UserError(
            f"there is no system {name!r}; choose one of {', '.join(sorted(SYSTEMS))}, "
            "or name your own as package.module:ATTRIBUTE"
        ) from None
    return _imported(path)


def published(name: str) -> System | None:
    """Return a published system by name; `None` for baselines and custom systems."""
    return get_system(name) if name in SYSTEMS else None


def _imported(path: str) -> System:
    system = load_attribute(path, f"system {path!r}")
    if not isinstance(system, System):
        expected = f"{System.__module__}.{System.__qualname__}"
        raise UserError(f"system {path!r} is a {type(system).__name__}, expected {expected}")
    return system

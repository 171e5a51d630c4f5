"""The recipes of the package."""

from __future__ import annotations

from importlib.resources import files

_ROOT = files("docagent_rl") / "recipes"


def recipe_names() -> list[str]:
    """Names that `--config-name` takes, sorted."""
    return sorted(p.name.removesuffix(".yaml") for p in _ROOT.iterdir() if p.name.endswith(".yaml"))


def recipe_summary(name: str) -> str:
    """The comment that opens a recipe, without its first line (the launch command)."""
    lines = []
    for line in (_ROOT / f"{name}.yaml").read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            break
        lines.append(line.removeprefix("#").strip())
    return "\n".join(lines[1:]).strip()

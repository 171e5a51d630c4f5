"""Puts the recipes of docagent-rl on Hydra's search path of every application in the environment."""

from __future__ import annotations

from hydra.core.config_search_path import ConfigSearchPath
from hydra.plugins.search_path_plugin import SearchPathPlugin


class DocAgentSearchPath(SearchPathPlugin):
    """Makes `--config-name <recipe>` find `docagent_rl/recipes` after the application's own configs."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        """Append the recipe package.

        Args:
            search_path: Hydra's search path, changed in place.
        """
        search_path.append(provider="docagent-rl", path="pkg://docagent_rl.recipes")

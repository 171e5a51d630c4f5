"""Puts the recipes of docagent-rl on Hydra's search path of every application in the
environment.
"""

from __future__ import annotations

from hydra.core.config_search_path import ConfigSearchPath
from hydra.plugins.search_path_plugin import SearchPathPlugin

from docagent_rl.base.section import fine_tunes  # of a module of its own: Hydra runs this one twice


class DocAgentSearchPath(SearchPathPlugin):
    """Makes `--config-name <recipe>` find `docagent_rl/recipes` after the application's own
    configs.

    In verl's supervised trainer `recipes/fine_tuning` stands before them, so that `+profile=cpu` is
    its own.
    """

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        """Append the recipe package.

        Args:
            search_path: Hydra's search path, changed in place.
        """
        if fine_tunes():
            search_path.append(provider="docagent-rl", path="pkg://docagent_rl.recipes.fine_tuning")
        search_path.append(provider="docagent-rl", path="pkg://docagent_rl.recipes")

import pytest
from omegaconf import OmegaConf

from docagent_rl.checks.merged_recipe import merged_recipe
from docagent_rl.checks.recipe_check import composed_recipe
from docagent_rl.checks.recipe_list import recipe_names


@pytest.mark.parametrize("name", recipe_names())
def test_a_merged_recipe_is_what_hydra_composes(name):
    assert OmegaConf.to_yaml(merged_recipe(name)) == OmegaConf.to_yaml(composed_recipe(name))

"""GLM-4.1V and GLM-4.6V-Flash (arXiv 2507.01006): limits count the two frames of an image, boxes are in
thousandths of each side.
"""

from docagent_rl.actions.coordinates import Frame
from docagent_rl.documents.grid import GridRule, ImageGrid
from docagent_rl.models.family import Family, Vision

FAMILY = Family(
    name="glm4v",
    title="GLM-4.1V",
    model_types=("glm4v",),
    vision=Vision(
        grid=ImageGrid(unit=28, min_pixels=112 * 112, max_pixels=9_633_792, rule=GridRule.GLM4V),
        patch=14,
        frame=Frame.NORM1000,
    ),
)

"""Gemma 4 E2B and E4B, whose images are seen in one direction as words are; larger ones are refused.

Their processor makes every image as large as 280 tokens allow. Boxes are thousandths of each side, in
pre-training with y first; prompts ask for x first.
"""

from docagent_rl.actions.coordinates import Frame
from docagent_rl.documents.grid import GridRule, ImageGrid
from docagent_rl.models.family import Family, Vision

FAMILY = Family(
    name="gemma4",
    title="Gemma 4",
    model_types=("gemma4",),
    vision=Vision(
        grid=ImageGrid(unit=48, min_pixels=1, max_pixels=280 * 48**2, rule=GridRule.FILLS),
        patch=16,
        merge=3,
        frame=Frame.NORM1000,
        small=ImageGrid(unit=48, min_pixels=1, max_pixels=70 * 48**2, rule=GridRule.FILLS),
    ),
)

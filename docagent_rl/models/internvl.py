"""InternVL3 and 3.5 in the format of transformers (arXiv 2504.10479): tiles of 448 pixels, 256 tokens each.

Their processor writes the marks around an image, and its tiles are no patches of bytes: images travel whole.
"""

from docagent_rl.actions.coordinates import Frame
from docagent_rl.documents.grid import GridRule, ImageGrid
from docagent_rl.models.family import Family, Vision

FAMILY = Family(
    name="internvl",
    title="InternVL",
    model_types=("internvl",),
    vision=Vision(
        grid=ImageGrid(rule=GridRule.TILES),
        patch=14,
        frame=Frame.NORM1000,
        small=ImageGrid(rule=GridRule.TILES, max_tiles=1),
    ),
)

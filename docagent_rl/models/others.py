"""GLM-4V and InternVL, which see, and Llama and Gemma 3 of text alone."""

from __future__ import annotations

from docagent_rl.actions.coordinates import Frame
from docagent_rl.documents.grid import GridRule, ImageGrid
from docagent_rl.models.family import Family, Vision

# GLM-4.1V and GLM-4.6V-Flash (arXiv 2507.01006): limits count the two frames of an image
GLM4V = Family(
    name="glm4v",
    title="GLM-4.1V",
    model_types=("glm4v", "glm46v"),
    vision=Vision(
        grid=ImageGrid(unit=28, min_pixels=112 * 112, max_pixels=9_633_792, rule=GridRule.GLM4V),
        patch=14,
        frame=Frame.NORM1000,
    ),
)

# InternVL3 and 3.5 in the format of transformers (arXiv 2504.10479): tiles of 448 pixels, 256 tokens each.
# Their processor writes the marks around an image, and its tiles are no patches of bytes: images travel whole
INTERNVL = Family(
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

# versions 2 and 3, arXiv 2407.21783
LLAMA = Family(name="llama", title="Llama", model_types=("llama",))
# arXiv 2503.19786: the checkpoint of 1B, or the language model of a larger one
GEMMA3 = Family(name="gemma3", title="Gemma 3", model_types=("gemma3_text",))

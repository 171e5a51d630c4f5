"""The actions of VRAG-RL (arXiv 2505.22019): search, zoom, answer."""

from __future__ import annotations

from docagent_rl.actions.arguments import read_answer, read_box, read_search
from docagent_rl.actions.grammar import Reader, TagGrammar


class VragGrammar(TagGrammar):
    """Thoughts in `<think>`; then one of `<search>query</search>`, `<bbox>[x1, y1, x2, y2]</bbox>` and
    `<answer>text</answer>`.

    Args:
        region_alias: also accept `<region>` for `<bbox>`; the paper's body and Algorithm 1 use that name,
            its printed prompt and the released code the other.
        crop: whether there is a zoom at all; without it neither of its tags means anything.
    """

    def __init__(self, *, region_alias: bool = False, crop: bool = True) -> None:
        readers: dict[str, Reader] = {"search": read_search}
        if crop:
            readers["bbox"] = read_box
            if region_alias:
                readers["region"] = read_box
        readers["answer"] = read_answer
        super().__init__(readers)

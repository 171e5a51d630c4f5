from pathlib import Path

from docagent_rl.systems.vrag_rl.config import VARIANT_DEFAULTS
from tools.recipe_pages import differences, variant_page

PAGE = Path(__file__).parents[2] / "docs" / "variants.md"


def test_a_row_for_every_difference_and_none_else():
    rows = {key: (paper, released) for key, paper, released, _ in differences("vrag_rl")}
    assert (rows["`max_turns`"], rows["`reward.gamma`"]) == (
        ("(ours) `5`", "`4`"),
        ("`0.0`", "`0.1`"),
    )
    assert rows["(prompt)"] == ("`vrag_rl_paper`", "`vrag_rl_released`")
    paper, released = (VARIANT_DEFAULTS[v]["reward"] for v in ("paper", "released"))
    assert {f"`reward.{k}`" for k in paper if paper[k] != released[k]} == {
        k for k in rows if "reward" in k
    }
    assert list(differences("doc_v_star")) == []
    # else: python -m tools.recipe_pages
    assert PAGE.read_text(encoding="utf-8") == variant_page()

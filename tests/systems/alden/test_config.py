from docagent_rl.systems.alden.config import AldenConfig
from docagent_rl.systems.alden.rewards import TERMS


def test_room_bounds_the_images():
    # 16,000 and 18,000 tokens of response hold all images
    for variant, most in (("paper", 16_000), ("released", 18_000)):
        assert AldenConfig.for_variant(variant).max_image_tokens <= most
    assert AldenConfig.for_variant("released", image_budget={"images": 10}).max_images == 10
    assert AldenConfig.for_variant("paper", max_turns=1).max_images == 0


def test_terms_that_can_only_be_zero_are_none():
    paper, released = AldenConfig.for_variant("paper"), AldenConfig.for_variant("released")
    assert set(TERMS) - set(paper.terms) == {"wrong_refusal", "missed_refusal"}
    assert set(TERMS) - set(released.terms) == {"query_repetition"}
    without = AldenConfig.for_variant("paper", fetch=False, query_repetition={"enabled": False})
    assert set(without.terms) == {"format", "search", "answer", "total"}

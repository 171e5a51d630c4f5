"""VRAG-RL by hand (Eq. 11 and 12)."""

from docagent_rl.systems.vrag_rl.config import VragConfig
from docagent_rl.systems.vrag_rl.env import VragEnv
from tests.players.attacks import Voice
from tests.players.formulas import ndcg
from tests.players.readers import tagged_answer
from tests.players.referee import Limits
from tests.players.rules import Rules, paid_at_the_end
from tests.systems.vrag_rl.play import adversary, oracle


class Vrag(Rules):
    env, config = VragEnv, VragConfig
    voice = Voice(
        core=lambda text: f"<answer>{text}</answer>",
        turn=lambda block: f"<think>so</think>{block}",
        search=lambda query: f"<search>{query}</search>",
        calls=(lambda text: f"<bbox>{text}</bbox>",),
        boxes=lambda text: f"<bbox>{text}</bbox>",
    )
    # 5 turns, of which the last shows nothing; 512 visual tokens an image, and rounding may add a
    # row of 40
    limits = Limits(turns=5, images=4, tokens=4 * 552, reward=(0.0, 1.0))
    adversary = staticmethod(adversary)

    def __init__(self, variant):
        super().__init__(variant, allow_empty_gold=True)

    @staticmethod
    def answer(turn):
        return tagged_answer(turn, ("search", "bbox", "answer"))

    def best(self, corpus, sample):
        if not sample.gold_pages:
            # any search will do
            turns = [
                f"<search>{sample.question}</search>",
                f"<answer>{self.secret(sample)}</answer>",
            ]
            return turns, [0.0, 0.8]
        turns = list(oracle(sample, corpus.query))
        return turns, [0.0] * (len(turns) - 1) + [1.0]

    def good_calls(self, corpus, sample):
        pages = sorted(sample.gold_pages)
        return [
            *(f"<think>look</think><search>{corpus.query(*page)}</search>" for page in pages),
            "<search>everypage</search>",
            "<bbox>[10, 10, 200, 300]</bbox>",
            "<bbox>[0, 0, 5000, 5000]</bbox>",
        ]

    def audit(self, state, corpus, said, right):
        shown = [page["page"] for effect in state.effects for page in effect.get("pages", ())]
        assert len(set(shown)) == len(shown)
        found = ndcg(shown, {f"{doc_id}#{page}" for doc_id, page in state.sample.gold_pages})
        done = float(state.ran("search") > 0 and said is not None)
        # what was found counts as published, and only behind the gate as released
        total = (
            0.2 * found + 0.8 * right
            if self.variant == "paper"
            else (0.2 * found + 0.7 * right + 0.1) * done
        )
        paid_at_the_end(
            state, {"retrieval_ndcg": found, "outcome": right, "format": done, "total": total}
        )

"""Doc-V* by hand (appendix C, reward)."""

import unicodedata

from docagent_rl.envs.base import EndReason
from docagent_rl.systems.doc_v_star.config import DocVStarConfig
from docagent_rl.systems.doc_v_star.env import DocVStarEnv
from tests.players.attacks import Voice
from tests.players.corpus import LIE
from tests.players.formulas import page_f
from tests.players.readers import doc_v_star_answer, doc_v_star_form
from tests.players.referee import Limits, visual_tokens
from tests.players.rules import Rules, paid_at_the_end
from tests.systems.doc_v_star.play import adversary, fetch, oracle, retrieve, turn

TURNS = 8
WEIGHTS = {"answer": 0.6, "evidence": 0.3, "format": 0.1}
ABSTENTIONS = {
    "not answerable",
    "unanswerable",
    "not answerable from the document",
    "n/a",
    "none",
    "unknown",
}
TIGHT = {"context_tokens": 4000, "reserve_tokens": 500}


class DocVStar(Rules):
    env, config = DocVStarEnv, DocVStarConfig
    voice = Voice(
        core=lambda text: f"<answer>{text}</answer>",
        turn=lambda block: turn(block, ""),
        search=lambda query: f"<retrieval_page>{query}</retrieval_page>",
        calls=(lambda text: f"<fetch_page>{text}</fetch_page>",),
    )
    # seven rounds of four pages, each at most 37 x 27 visual tokens
    limits = Limits(turns=TURNS, images=28, tokens=28 * 999, reward=(0.0, 1.0))
    answer = staticmethod(doc_v_star_answer)

    def __init__(self, *, tight=False):
        super().__init__("paper", **(TIGHT if tight else {}))
        if tight:
            self.ends = self.ends | {EndReason.CONTEXT_FULL}

    def __str__(self):
        return f"{super().__str__()}{'-tight' * bool(self.settings)}"

    def best(self, corpus, sample):
        turns = list(oracle(sample, corpus.own_query))
        return turns, [0.0] * (len(turns) - 1) + [1.0]

    def good_calls(self, corpus, sample):
        pages = corpus.store.document(sample.doc_id).num_pages
        finds = [corpus.own_query(*page) for page in sorted(sample.gold_pages)] + ["everypage"]
        return [
            *(retrieve(query, listed) for query in finds for listed in (None, "", "[1, 2]")),
            fetch([1, pages], "1 2 3"),
            fetch(list(range(1, pages + 1)), ""),
            fetch([pages, 99], "99"),
        ]

    def wild(self, rng):
        return adversary(rng, TURNS + 1)

    def audit(self, state, corpus, said, right):
        pages = corpus.store.document(state.sample.doc_id).num_pages
        images = [image for r in state.results if r.observation for image in r.observation.images]
        shown = [image.page.page for image in images]
        assert len(shown) == len(set(shown)) == state.metrics["pages_seen"]
        listed = set()
        for played, result in zip(state.turns, state.results, strict=True):
            relevant = set(result.record.to_dict()["relevant_pages"])
            assert relevant <= set(range(1, pages + 1))
            assert all(str(page) in played.text for page in relevant)
            listed |= relevant
        formed = all(doc_v_star_form(t, pages, first=n == 0) for n, t in enumerate(state.turns))
        terms = {
            "answer": answer_score(said, state.sample) if said else 0.0,
            "evidence": page_f(listed, state.sample.evidence_pages, shown),
            "format": float(formed and bool(said)),
        }
        paid_at_the_end(
            state, {**terms, "total": sum(WEIGHTS[name] * terms[name] for name in WEIGHTS)}
        )
        if self.settings:
            assert visual_tokens([*state.prompt.images, *images]) <= 3500


def answer_score(text, sample):
    """Return the score of an answer; the gold answer of the hostile corpus is a count, or there is
    none.
    """
    folded = " ".join(unicodedata.normalize("NFKC", text).casefold().split())
    if not sample.answers:
        return float(folded.strip(" .,;:!?\"'()[]*") in ABSTENTIONS)
    return float(folded.replace(",", "").lstrip("+") == LIE)

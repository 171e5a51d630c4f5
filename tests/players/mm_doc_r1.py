"""MM-Doc-R1 by hand (section 3.2.3, reward)."""

import dataclasses

from docagent_rl.envs.base import EndReason
from docagent_rl.envs.roles import RoleName
from docagent_rl.envs.rule_roles import INSUFFICIENT
from docagent_rl.rewards.mmlongbench import AnswerFormat, answer_rightness
from docagent_rl.systems.mm_doc_r1.config import MMDocConfig
from docagent_rl.systems.mm_doc_r1.env import MMDocEnv
from tests.players.attacks import Voice
from tests.players.corpus import LIE
from tests.players.referee import Limits
from tests.players.rules import Rules, paid_at_the_end
from tests.systems.mm_doc_r1.play import adversary, oracle


class Knower:
    """An answer agent and an extractor that know the right answer, and so are as good as these
    roles can be.
    """

    def __init__(self, reply: str) -> None:
        self._reply = reply

    async def complete(self, messages):
        return self._reply


class MMDoc(Rules):
    env, config = MMDocEnv, MMDocConfig
    voice = Voice(
        core=lambda text: f"<answer>{text}</answer>",
        turn=lambda block: f"I look. {block}",
        search=lambda query: f'<search>["{query}"]</search>',
        calls=(lambda text: f'<read>[{{"page_ids": [{text}], "query": "q"}}]</read>',),
    )
    limits = Limits(turns=4, images=0, tokens=0, reward=(0.0, 2.0))
    ends = frozenset({EndReason.FINISHED, EndReason.INVALID, EndReason.TURN_LIMIT})
    adversary = staticmethod(adversary)

    @staticmethod
    def answer(turn):
        """Return no answer, since the seeker answers nothing."""
        return

    def knowing(self, services, sample):
        # a comma makes a number unreadable, so the plain one is given
        text = (sample.answers or (self.refusal,))[-1]
        extracted = f"Extracted answer: {text}\nAnswer format: String"
        roles = {RoleName.ANSWER: Knower(text), RoleName.EXTRACTOR: Knower(extracted)}
        return dataclasses.replace(services, roles=roles)

    def best(self, corpus, sample):
        turns = list(oracle(sample))
        return turns, [0.0] * (len(turns) - 1) + [2.0]

    def good_calls(self, corpus, sample):
        pages = corpus.store.document(sample.doc_id).num_pages
        gold = list(sample.evidence_pages) or [1]
        return [
            f'So. <search>["{corpus.own_query(sample.doc_id, gold[0])}"]</search>',
            f'<read>[{{"page_ids": {gold}, "query": "{LIE}"}}]</read>',
            f'<read>[{{"page_ids": [1, {pages}, 1, 99, "x"], "query": ""}}]</read>',
            f'<read>{{"page_ids": {list(range(1, pages + 1))}, "query": "all"}}</read>',
        ]

    def audit(self, state, corpus, said, right):
        read, gold = pages_read(state), set(state.sample.evidence_pages)
        recall = len(read & gold) / len(gold) if gold else 1.0
        outcome = state.results[-1].record.to_dict()["outcome"]
        # the scorer of MMLongBench-Doc has an independent version in its own tests
        kind = AnswerFormat.of(state.sample.answer_format if state.sample.answers else "None")
        references = state.sample.answers or (self.refusal,)
        correct = max(
            answer_rightness(reference, outcome["extracted"], kind) for reference in references
        )
        paid_at_the_end(
            state, {"page_recall": recall, "correctness": correct, "total": recall + correct}
        )
        # the answer is a piece of what was read, or a refusal; never what the seeker said
        document = corpus.store.document(state.sample.doc_id)
        texts = (" ".join(f"Page {n}: {document.page(n).text()}".split()) for n in sorted(read))
        assert outcome["answer"] == INSUFFICIENT or outcome["answer"].rstrip("\u2026") in " ".join(
            texts
        )
        if state.sample.answers and not read:
            assert state.pay[-1] == 0


def pages_read(state):
    """Return the pages of executed reads; no step reads more than two entries of three."""
    read = set()
    for effect in state.effects:
        entries = effect.get("entries", ())
        assert len(entries) <= 2
        assert all(len(entry["pages"]) <= 3 for entry in entries)
        read |= {int(page.rpartition("#")[2]) for entry in entries for page in entry["pages"]}
    return read

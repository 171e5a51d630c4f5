"""MM-Doc-R1 by hand (section 3.2.3, reward)."""

from __future__ import annotations

import dataclasses

from docagent_rl.envs.base import EndReason
from docagent_rl.envs.roles import RoleName
from docagent_rl.envs.rule_roles import INSUFFICIENT
from docagent_rl.rewards.mmlongbench import AnswerFormat, score
from docagent_rl.systems.mm_doc_r1.config import MMDocConfig
from docagent_rl.systems.mm_doc_r1.env import MMDocEnv
from tests.players.attacks import Voice
from tests.players.corpus import LIE
from tests.players.referee import Limits
from tests.players.rules import Rules, paid_at_the_end
from tests.systems.mm_doc_r1.play import adversary, oracle


class Knower:
    """An answer agent, and an extractor, that know what is right: the best that the roles can be."""

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
        """The seeker answers nothing, whatever it says."""
        return

    def knowing(self, services, record):
        # a comma makes a number unreadable, so the plain one is given
        text = (record.answers or (self.refusal,))[-1]
        extracted = f"Extracted answer: {text}\nAnswer format: String"
        roles = {RoleName.ANSWER: Knower(text), RoleName.EXTRACTOR: Knower(extracted)}
        return dataclasses.replace(services, roles=roles)

    def best(self, corpus, record):
        turns = list(oracle(record))
        return turns, [0.0] * (len(turns) - 1) + [2.0]

    def good_calls(self, corpus, record):
        pages = corpus.store.document(record.doc_id).num_pages
        gold = list(record.evidence_pages) or [1]
        return [
            f'So. <search>["{corpus.own_query(record.doc_id, gold[0])}"]</search>',
            f'<read>[{{"page_ids": {gold}, "query": "{LIE}"}}]</read>',
            f'<read>[{{"page_ids": [1, {pages}, 1, 99, "x"], "query": ""}}]</read>',
            f'<read>{{"page_ids": {list(range(1, pages + 1))}, "query": "all"}}</read>',
        ]

    def audit(self, game, corpus, said, right):
        read, gold = pages_read(game), set(game.record.evidence_pages)
        recall = len(read & gold) / len(gold) if gold else 1.0
        outcome = game.results[-1].info["outcome"]
        # the scorer of MMLongBench-Doc has an independent version in its own tests
        kind = AnswerFormat.of(game.record.answer_format if game.record.answers else "None")
        references = game.record.answers or (self.refusal,)
        correct = max(score(reference, outcome["extracted"], kind) for reference in references)
        paid_at_the_end(game, {"page_recall": recall, "correctness": correct, "total": recall + correct})
        # the answer is a piece of what was read, or a refusal; never what the seeker said
        document = corpus.store.document(game.record.doc_id)
        texts = (" ".join(f"Page {n}: {document.page(n).text()}".split()) for n in sorted(read))
        assert outcome["answer"] == INSUFFICIENT or outcome["answer"].rstrip("\u2026") in " ".join(texts)
        if game.record.answers and not read:
            assert game.pay[-1] == 0


def pages_read(game):
    """Pages of executed reads; no step reads more than two entries of three."""
    read = set()
    for effect in game.effects:
        entries = effect.get("entries", ())
        assert len(entries) <= 2
        assert all(len(entry["pages"]) <= 3 for entry in entries)
        read |= {int(page.rpartition("#")[2]) for entry in entries for page in entry["pages"]}
    return read

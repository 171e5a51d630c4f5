"""Search for trajectories whose reward is higher than what they know deserves.

A plan is a list of moves, the same for all questions, so that a lucky hit on one of them counts no
more than it does on average. Plans of an agent that knows nothing need no page to be read: they
search for the question's own words in any order, open pages by number, draw the same boxes on
everything, answer anything. Plans of an agent that knows evidence and answer are to be paid no more
than an honest trajectory. A plan is changed one move at a time as long as that pays more; the best
stand in `System.unearned` and in docs/variants.md.

    python -m tests.players.unearned [--restarts 4] [--seed 0] [NAME ...]
"""

import argparse
import asyncio
import json
import random
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean

from docagent_rl.envs.roles import RoleName
from docagent_rl.envs.services import EnvServices, RetrieverService
from docagent_rl.rewards.rule_judge import RuleJudge
from docagent_rl.samples.sample import Sample
from tests.players.alden import Alden
from tests.players.corpus import Corpus, open_corpus, write_reports
from tests.players.doc_v_star import DocVStar
from tests.players.mm_doc_r1 import Knower, MMDoc
from tests.players.referee import play
from tests.players.rules import Rules
from tests.players.unidoc_rl import UniDoc
from tests.players.vrag_rl import Vrag
from tests.systems.alden.play import answer as alden_answer
from tests.systems.alden.play import fetch as alden_fetch
from tests.systems.alden.play import oracle as alden_oracle
from tests.systems.alden.play import search as alden_search
from tests.systems.doc_v_star import play as doc_v_star_play

Move = Callable[[Corpus, Sample], str]
"""Writes a turn for a question."""
Plan = tuple[str, ...]

BOXES = {
    "draw no box": [],
    "draw an empty box": [5, 5, 5, 5],
    "draw the whole page": [0, 0, 9000, 9000],
    "draw the middle": [100, 100, 400, 500],
}
MANY = 12
"""Questions on which a plan is tried."""


def queries() -> dict[str, Callable[[Sample], str]]:
    """Return queries that can be written without looking at any page."""

    def words(sample: Sample) -> list[str]:
        return sample.question.split()

    def padded(sample: Sample) -> str:
        return " ".join([*words(sample), *(["zyx"] * len(words(sample)))])

    return {
        "the question": lambda sample: sample.question,
        "the question backwards": lambda sample: " ".join(reversed(words(sample))),
        "the question and as much padding": padded,
        "its first half": lambda sample: " ".join(words(sample)[: len(words(sample)) // 2]),
        "its second half": lambda sample: " ".join(words(sample)[len(words(sample)) // 2 :]),
        "x": lambda sample: "x",
    }


def asked(write: Callable[[str], str]) -> dict[str, Move]:
    """Return a search for each of the queries."""
    return {
        f"search for {name}": lambda corpus, sample, query=query: write(query(sample))
        for name, query in queries().items()
    }


@dataclass(frozen=True)
class Game:
    """A system as plans play it: its moves, its answers, and the trajectory of an honest agent."""

    rules: Rules
    moves: Mapping[str, Move]
    say: Callable[[str], str]
    """Writer of the last turn, with an answer."""
    honest: Callable[[Corpus, Sample], Sequence[str]]
    turns: int
    informed: Mapping[str, Move]
    """Further moves, of an agent that knows the evidence; none where no more than the honest can be
    paid.
    """
    last: Sequence[str] = ("answer unknown", "answer the question", "refuse")
    """Answers without knowledge."""

    def __str__(self) -> str:
        return str(self.rules)


def pages_of(corpus: Corpus, sample: Sample) -> int:
    """Return the number of pages of a question's document."""
    return corpus.store.document(sample.doc_id).num_pages


def evidence(sample: Sample) -> tuple[str, int]:
    """Return the first page with evidence."""
    return min(sample.gold_pages)


def best(corpus: Corpus, sample: Sample, rules: Rules) -> Sequence[str]:
    """Return the trajectory of the rules' own oracle."""
    return rules.best(corpus, sample)[0]


def alden(variant: str) -> Game:
    rules = Alden(variant, "visual")
    ordinal = "-th" if variant == "released" else ""
    pages: dict[str, Move] = {
        f"fetch page {number}": lambda corpus, sample, number=number: alden_fetch(
            f"{number}{ordinal}"
        )
        for number in (1, 2, 3, 4)
    }
    pages["fetch the middle page"] = lambda corpus, sample: alden_fetch(
        f"{pages_of(corpus, sample) // 2}{ordinal}"
    )
    pages["fetch the last page"] = lambda corpus, sample: alden_fetch(
        f"{pages_of(corpus, sample)}{ordinal}"
    )
    moves = {**asked(alden_search), **pages}
    informed: dict[str, Move] = {
        "search for the evidence": lambda corpus, sample: alden_search(
            corpus.own_query(*evidence(sample))
        ),
        "search for the evidence in other words": lambda corpus, sample: alden_search(
            corpus.queries(*evidence(sample))[-1]
        ),
        "fetch the evidence": lambda corpus, sample: alden_fetch(f"{evidence(sample)[1]}{ordinal}"),
    }
    honest = lambda corpus, sample: list(alden_oracle(sample, corpus.own_query))  # noqa: E731
    last = ("answer unknown", "refuse", "answer 1 2 3 4 5 6 7 8 9 0")
    return Game(rules, moves, alden_answer, honest, 6, informed, last)


def doc_v_star() -> Game:
    rules, write = DocVStar(), doc_v_star_play

    def listed(corpus: Corpus, sample: Sample) -> str:
        return str(list(range(1, pages_of(corpus, sample) + 1)))

    moves: dict[str, Move] = {
        **asked(lambda query: write.retrieve(query, "")),
        "fetch pages 1 to 4": lambda corpus, sample: write.fetch([1, 2, 3, 4], ""),
        "fetch pages 5 to 8": lambda corpus, sample: write.fetch([5, 6, 7, 8], ""),
        "fetch pages 9 to 12": lambda corpus, sample: write.fetch([9, 10, 11, 12], ""),
        "fetch pages 1 to 4 and list all pages": lambda corpus, sample: write.fetch(
            [1, 2, 3, 4], listed(corpus, sample)
        ),
        "search for the question and list all pages": lambda corpus, sample: write.retrieve(
            sample.question, listed(corpus, sample)
        ),
    }
    honest = lambda corpus, sample: best(corpus, sample, rules)  # noqa: E731
    return Game(rules, moves, lambda text: write.answer(text, "[1, 2, 3, 4]"), honest, 8, {})


def mm_doc_r1() -> Game:
    rules = MMDoc()

    def read(first: int) -> Move:
        entries = [{"page_ids": list(range(at, at + 3)), "query": "x"} for at in (first, first + 3)]
        return lambda corpus, sample: f"So. <read>{json.dumps(entries)}</read>"

    moves: dict[str, Move] = {
        **asked(lambda query: f"So. <search>{json.dumps([query])}</search>"),
        **{f"read pages {first} to {first + 5}": read(first) for first in (1, 7, 13)},
    }
    honest = lambda corpus, sample: best(corpus, sample, rules)  # noqa: E731
    finish = lambda text: "That is enough. <FINISH>"  # noqa: E731
    return Game(rules, moves, finish, honest, 4, {}, ("finish",))


def unidoc_rl(variant: str) -> Game:
    rules = UniDoc(variant)
    moves: dict[str, Move] = {
        **asked(lambda query: f"<think>so</think><search>{query}</search>"),
        **{
            f"select {index}": lambda corpus, sample, index=index: (
                f"<think>so</think><select>{index}</select>"
            )
            for index in range(3)
        },
        **{
            name: lambda corpus, sample, box=box: f"<think>so</think><bbox>{json.dumps(box)}</bbox>"
            for name, box in BOXES.items()
        },
    }
    say = lambda text: f"<think>so</think><information>it</information><answer>{text}</answer>"  # noqa: E731
    informed: dict[str, Move] = {
        "search for the evidence": lambda corpus, sample: (
            f"<think>so</think><search>{corpus.query(*evidence(sample))}</search>"
        )
    }
    return Game(rules, moves, say, lambda corpus, sample: best(corpus, sample, rules), 10, informed)


def vrag_rl(variant: str) -> Game:
    rules = Vrag(variant)
    moves: dict[str, Move] = {
        **asked(lambda query: f"<think>so</think><search>{query}</search>"),
        **{
            name: lambda corpus, sample, box=box: f"<think>so</think><bbox>{json.dumps(box)}</bbox>"
            for name, box in BOXES.items()
        },
    }
    say = lambda text: f"<think>so</think><answer>{text}</answer>"  # noqa: E731
    informed: dict[str, Move] = {
        "search for the evidence": lambda corpus, sample: (
            f"<think>so</think><search>{corpus.query(*evidence(sample))}</search>"
        )
    }
    return Game(rules, moves, say, lambda corpus, sample: best(corpus, sample, rules), 5, informed)


def games() -> dict[tuple[str, str], Game]:
    """Yield the games by system and variant."""
    return {
        ("alden", "paper"): alden("paper"),
        ("alden", "released"): alden("released"),
        ("doc_v_star", "paper"): doc_v_star(),
        ("mm_doc_r1", "paper"): mm_doc_r1(),
        ("unidoc_rl", "paper"): unidoc_rl("paper"),
        ("unidoc_rl", "released"): unidoc_rl("released"),
        ("vrag_rl", "paper"): vrag_rl("paper"),
        ("vrag_rl", "released"): vrag_rl("released"),
    }


@dataclass
class Table:
    """The mean rewards of plans over some questions; every plan is played once."""

    game: Game
    corpus: Corpus
    samples: Sequence[Sample]
    values: dict[Plan, float] = field(default_factory=dict)

    def value(self, plan: Plan) -> float:
        """Return the mean reward of a plan, whose last word is its answer."""
        if plan not in self.values:
            self.values[plan] = asyncio.run(self._played(plan))
        return self.values[plan]

    def honest(self) -> float:
        """Return the mean reward of an agent that searches, reads and answers right."""

        async def paid() -> float:
            rules = self.game.rules
            totals = []
            for sample in self.samples:
                env = rules.make(rules.knowing(self._services(), sample))
                totals.append(
                    sum((await play(env, sample, self.game.honest(self.corpus, sample))).pay)
                )
            return fmean(totals)

        return asyncio.run(paid())

    async def _played(self, plan: Plan) -> float:
        totals = []
        for sample in self.samples:
            services = self._services()
            unknowing = {RoleName.ANSWER: Knower("unknown"), RoleName.EXTRACTOR: Knower("unknown")}
            env = self.game.rules.make(replace(services, roles={**services.roles, **unknowing}))
            totals.append(sum((await play(env, sample, self._written(plan, sample))).pay))
        return fmean(totals)

    def _written(self, plan: Plan, sample: Sample) -> list[str]:
        texts = {
            "answer the question": sample.question,
            "refuse": self.game.rules.refusal,
            "answer right": self.game.rules.secret(sample),
        }
        *moves, answer = plan
        known = {**self.game.moves, **self.game.informed}
        turns = [known[move](self.corpus, sample) for move in moves]
        # an environment that has ended trajectories by itself looks at none of the rest
        return [*turns, *[self.game.say(texts.get(answer, answer.removeprefix("answer ")))] * 2]

    def _services(self) -> EnvServices:
        return EnvServices(self.corpus.store, RetrieverService(self.corpus.retriever), RuleJudge())


def neighbours(plan: Plan, moves: Sequence[str], answers: Sequence[str], turns: int) -> list[Plan]:
    """Return the plans that differ from one by an added, removed or changed move, or by the
    answer.
    """
    *body, last = plan
    found = [(*body, other) for other in answers if other != last]
    for at in range(len(body)):
        found.append((*body[:at], *body[at + 1 :], last))
        found += [(*body[:at], move, *body[at + 1 :], last) for move in moves if move != body[at]]
    if len(body) < turns - 1:
        found += [
            (*body[:at], move, *body[at:], last) for at in range(len(body) + 1) for move in moves
        ]
    return found


def climb(
    table: Table, start: Plan, moves: Sequence[str], answers: Sequence[str], rng: random.Random
) -> Plan:
    """Change a plan as long as a change raises its reward."""
    plan = start
    while True:
        near = neighbours(plan, moves, answers, table.game.turns)
        rng.shuffle(near)
        better = next((each for each in near if table.value(each) > table.value(plan) + 1e-9), None)
        if better is None:
            return plan
        plan = better


def search(
    table: Table, moves: Sequence[str], answers: Sequence[str], *, restarts: int, seed: int
) -> Plan:
    """Return the plan with the highest reward among those to which climbs from random plans
    lead.
    """
    rng = random.Random(seed)
    found = []
    for _ in range(restarts):
        body = [rng.choice(moves) for _ in range(rng.randrange(1, table.game.turns))]
        found.append(climb(table, (*body, rng.choice(answers)), moves, answers, rng))
    return max(found, key=table.value)


def asked_of(corpus: Corpus) -> list[Sample]:
    """Return questions with an answer and evidence, from all documents."""
    answered = [sample for sample in corpus.questions if sample.answers and sample.gold_pages]
    return answered[:: max(1, len(answered) // MANY)][:MANY]


def main() -> None:
    """Search, and print the result."""
    parser = argparse.ArgumentParser(prog="python -m tests.players.unearned", description=__doc__)
    parser.add_argument("names", nargs="*", help="systems; by default all")
    parser.add_argument("--restarts", type=int, default=4)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        corpus = open_corpus(folder / "pdfs", folder / "store", write_reports(folder))
        for (system, variant), game in games().items():
            if args.names and system not in args.names:
                continue
            table = Table(game, corpus, asked_of(corpus))
            honest = table.honest()
            print(f"{system} {variant}: honest {honest:.3f}", flush=True)
            kinds = {"without the answer": (tuple(game.moves), game.last)}
            if game.informed:
                kinds["with evidence and answer"] = (
                    (*game.moves, *game.informed),
                    ("answer right",),
                )
            for kind, (moves, answers) in kinds.items():
                plan = search(table, moves, answers, restarts=args.restarts, seed=args.seed)
                value = table.value(plan)
                print(
                    f"  {kind}: {value:.3f}, {value / honest:.0%}: {' | '.join(plan)}", flush=True
                )


if __name__ == "__main__":
    main()

"""Environments, their turns and their metrics; undefined metrics are left out of averages."""

import asyncio
import dataclasses
import json
import threading

import pytest

from docagent_rl.actions.base import (
    Action,
    Answer,
    Crop,
    Fetch,
    Finish,
    Invalid,
    InvalidReason,
    ParsedTurn,
    Read,
    Search,
    Select,
)
from docagent_rl.actions.grammar import bad_argument
from docagent_rl.documents import PageRef
from docagent_rl.envs.base import (
    AssistantTurn,
    DocEnv,
    EndReason,
    EnvState,
    ImagePart,
    Message,
    Observation,
    OutcomeMetrics,
    RewardTerms,
    Role,
    StepResult,
    TextPart,
    TokenTerm,
    UnknownActionError,
    measured,
    parts_of,
)
from docagent_rl.envs.images import ImageRef
from docagent_rl.envs.outcome import Outcome
from docagent_rl.envs.services import EnvServices, RetrieverService
from docagent_rl.envs.turn_log import LoggedTurn, TurnLog
from docagent_rl.envs.turn_record import ActionRecord
from docagent_rl.rewards.rule_judge import RuleJudge
from docagent_rl.rollout.digest import TrajectoryDigest
from docagent_rl.rollout.trajectory import Trajectory
from docagent_rl.systems import SYSTEMS, get_system
from docagent_rl.training.trainer.summary import summarise
from tests.systems.alden import play as alden_play
from tests.systems.doc_v_star import play as doc_v_star_play


@dataclasses.dataclass(frozen=True, slots=True)
class Mark(Action):
    """An action that no environment here knows, although it names pages as a fetch does."""

    pages: tuple[int, ...]
    boxes: tuple[tuple[float, float], ...] = ()


class Plain(DocEnv):
    """An environment that records its calls, and whether they ran on the event loop; a service
    writes its prompt.
    """

    def __init__(self) -> None:
        self.called: list[tuple[str, bool]] = []

    def note(self, name: str) -> None:
        self.called.append((name, threading.current_thread() is threading.main_thread()))

    def new_state(self, sample):
        self.note("open")
        return super().new_state(sample)

    async def prepare(self, state):
        await asyncio.sleep(0)
        self.note("prepare")

    def show_prompt(self, state):
        self.note("show")
        assert self.running is state
        return Observation.user(TextPart(state.sample.question))

    async def step(self, turn):
        self.running.end = EndReason.ANSWERED
        return StepResult(None, end=EndReason.ANSWERED)

    async def conclude(self, reason):
        return RewardTerms()

    def metrics(self):
        return {"turns": float(len(self.state.log.turns))}


@pytest.fixture
def report_env_services(world):
    return EnvServices(world.store, RetrieverService(world.retriever), RuleJudge())


async def test_a_trajectory_is_opened_in_a_thread_and_prepared_on_the_loop(world):
    env, sample = Plain(), world.samples[0]
    assert await env.reset(sample) == Observation.user(TextPart(sample.question))
    assert env.called == [("open", False), ("prepare", True), ("show", False)]
    assert env.state == EnvState(sample)
    # an opening asks nobody
    fresh = Plain()
    assert fresh.opening(sample) == Observation.user(TextPart(sample.question))
    assert [name for name, _ in fresh.called] == ["open", "show"]


@pytest.mark.parametrize("name", SYSTEMS)
async def test_an_action_that_an_environment_does_not_know_is_an_error(
    name, world, report_env_services
):
    system = get_system(name)
    env = system.make_env(system.small, report_env_services)
    grammar = env._grammar

    class Newer:
        """The system's grammar with an additional action that the environment does not know."""

        def parse(self, *args, **kwargs):
            parsed = grammar.parse(*args, **kwargs)
            return dataclasses.replace(parsed, action=Mark((0, 5), (1, 4), (1,)))

    env._grammar = Newer()
    await env.reset(world.samples[0])
    with pytest.raises(UnknownActionError, match="Mark"):
        await env.step(AssistantTurn("<mark>1, 2</mark>"))


UNKNOWN = {"doc_v_star": "allow_unknown_evidence", "mm_doc_r1": None}
TURNS = {
    "alden": [alden_play.search("pagek3"), alden_play.answer("blue")],
    "doc_v_star": [
        doc_v_star_play.retrieve("pagek3"),
        doc_v_star_play.fetch("[4]", "[3]"),
        doc_v_star_play.answer(),
    ],
    "mm_doc_r1": ['<read>[{"page_ids": [3], "query": "colour"}]</read>', "<FINISH>"],
    "unidoc_rl": [
        "<search>pagek3</search>",
        "<select>0</select>",
        "<information>blue</information><answer>blue</answer>",
    ],
    "vrag_rl": ["<search>pagek3</search>", "<answer>blue</answer>"],
}
ABOUT_GOLD = {
    "alden": {"retrieval_recall", "retrieval_precision", "retrieval_f1"},
    "doc_v_star": {"retrieval_recall", "page_recall", "page_precision", "page_f1",
                   "retrieval/page_recall", "retrieval/page_precision", "retrieval/page_f1",
                   "fetch/page_recall", "fetch/page_precision", "fetch/page_f1"},
    "mm_doc_r1": {"retrieval_recall"},
    "unidoc_rl": {"retrieval_recall", "recall_first", "recall_selected", "retrieval_ndcg"},
    "vrag_rl": {"retrieval_recall", "retrieval_ndcg"},
}  # fmt: skip
NO_GOLD = [{"answers": (), "answerable": False, "evidence_pages": ()}, {"evidence_pages": ()}]


@pytest.mark.parametrize("changes", NO_GOLD)
@pytest.mark.parametrize("system", sorted(TURNS))
async def test_trajectories_without_gold_are_left_out_of_averages(
    system, changes, services, make_sample, play
):
    allowed = UNKNOWN.get(system, "allow_empty_gold")
    settings = {allowed: True} if allowed else {}

    async def metrics_of(**question):
        env = get_system(system).make_env(settings, services)
        return (await play(env, make_sample(extra={}, **question), TURNS[system])).metrics

    found, nothing = await metrics_of(evidence_pages=(3, 4)), await metrics_of(**changes)
    assert ABOUT_GOLD[system] <= set(found)
    assert not ABOUT_GOLD[system] & set(nothing)
    made = [
        TrajectoryDigest.of(
            Trajectory("u", number, 1, "val", {"question_id": "q"}, "any", metrics=metrics)
        )
        for number, metrics in enumerate((found, nothing, nothing))
    ]
    numbers = summarise(made)
    for name in ABOUT_GOLD[system]:
        assert numbers[f"docagent/{name}"] == found[name] > 0


SPANS = ((0, 9), (2, 7))
ACTIONS = [
    Search(*SPANS, "q"),
    Fetch(*SPANS, (1, 2)),
    Select(*SPANS, (1,)),
    Crop(*SPANS, ((1.0, 2.0, 3.0, 4.0),)),
    Read(*SPANS, (3,), "why"),
    Answer(*SPANS, "a"),
    Finish(None, None),
    Invalid(None, None, InvalidReason.UNCLOSED, "open"),
]


def test_every_action_can_be_written_down():
    described = [ActionRecord.of(action).to_dict() for action in ACTIONS]
    assert json.loads(json.dumps(described)) == described
    assert [entry["kind"] for entry in described] == [
        "search", "fetch", "select", "crop", "read", "answer", "finish", "invalid",
    ]  # fmt: skip
    assert described[3]["boxes"] == [[1.0, 2.0, 3.0, 4.0]]
    assert described[7] == {
        "kind": "invalid",
        "block": None,
        "argument": None,
        "reason": "unclosed",
    }


def test_counts():
    crop = ACTIONS[3]
    log = TurnLog(
        [
            LoggedTurn(1, ParsedTurn(ACTIONS[0], surplus=(crop, crop)), image_tokens=5),
            LoggedTurn(2, ParsedTurn(crop), refused=bad_argument("off", *SPANS)),
            LoggedTurn(3, ParsedTurn(ACTIONS[7])),
            LoggedTurn(4, ParsedTurn(ACTIONS[0]), image_tokens=7, dropped=True),
            LoggedTurn(5, ParsedTurn(ACTIONS[0]), executed=False),
        ]
    )
    metrics = log.metrics()
    assert (log.ran(Search), log.ran(Crop)) == (2, 0)
    counted = {
        "turns": 5, "invalid_actions": 2, "invalid_action_rate": 0.4, "invalid/bad_argument": 1,
        "invalid/unclosed": 1, "surplus_actions": 2, "image_tokens": 5,
    }  # fmt: skip
    assert {name: metrics[name] for name in counted} == counted
    assert TurnLog().metrics() == dict.fromkeys(metrics, 0.0)
    assert all(isinstance(value, float) for value in metrics.values())


PAGE = ImageRef(PageRef("K", 1), "hash", (0, 0, 9, 9), (9, 9))


@pytest.mark.parametrize(
    ("lines", "parts"),
    [
        ([], []),
        (["a", "b"], ["a\nb"]),
        (["a", PAGE, "b"], ["a\n", PAGE, "\nb"]),
        ([PAGE, PAGE], [PAGE, "\n", PAGE]),
        ([PAGE, "a", "", PAGE], [PAGE, "\na\n\n", PAGE]),
        (["", PAGE, "", ""], ["\n", PAGE]),
    ],
)
def test_lines_and_images_are_parted_by_line_breaks(lines, parts):
    found = parts_of(lines)
    assert [part.text if isinstance(part, TextPart) else part.image for part in found] == parts


def test_images_of_an_observation_keep_their_order():
    other = dataclasses.replace(PAGE, page=PageRef("K", 2))
    first = Message(Role.SYSTEM, (TextPart("a"), ImagePart(PAGE)))
    second = Message(Role.USER, (ImagePart(other), ImagePart(PAGE)))
    found = Observation((first, second))
    assert (found.images, found.fresh) == ((PAGE, other, PAGE), False)


def test_a_step_shows_something_or_ends():
    shown = Observation.user(TextPart("go on"))
    assert not StepResult(shown).done
    assert StepResult(None, end=EndReason.ANSWERED).done
    for arguments in ((None, None), (shown, EndReason.ANSWERED)):
        with pytest.raises(ValueError, match="either an observation or an end"):
            StepResult(*arguments)


def test_ends_that_the_policy_chose_are_complete():
    assert {end for end in EndReason if end.complete} == {EndReason.ANSWERED, EndReason.FINISHED}


@dataclasses.dataclass
class Seen(EnvState):
    shown_by_turn = ("pages", "count")
    pages: list[int] = dataclasses.field(default_factory=list)
    count: int = 0
    asked: int = 0


def test_what_was_never_shown_is_taken_back(make_sample):
    state = Seen(make_sample(), [1])
    state.begin_turn()
    state.log.turns.append(LoggedTurn(1, ParsedTurn(ACTIONS[0]), image_tokens=5))
    state.pages.append(2)
    state.count, state.asked = 7, 1
    assert "[1]" not in repr(state)  # what may come back is no part of what is now
    state.take_back()
    assert (state.pages, state.count, state.asked) == ([1], 0, 1)
    assert state.log.turns[-1].dropped


def test_a_state_is_settled_by_the_total(make_sample):
    state = EnvState(make_sample())
    before = state.common_metrics(("outcome",))
    assert (before["reward/outcome"], before["finished"], before["context_full"]) == (0.0, 0.0, 0.0)
    terms = state.finish(EndReason.ANSWERED, {"outcome": 1, "total": 0.75})
    assert (terms.reward, state.terms, state.end) == (0.75, terms, EndReason.ANSWERED)
    found = state.common_metrics(("outcome", "form"))
    assert (found["reward/outcome"], found["reward/form"], found["finished"]) == (1.0, 0.0, 1.0)
    assert "reward/outcome" not in state.metrics()
    state.end = EndReason.CONTEXT_FULL
    assert (state.metrics()["finished"], state.metrics()["context_full"]) == (0.0, 1.0)


def test_an_environment_is_reset_before_it_is_played(make_sample):
    env = Plain()
    with pytest.raises(RuntimeError, match=r"call reset\(\) first"):
        _ = env.state
    env.opening(make_sample())
    assert env.running is env.state
    env.state.end = EndReason.TURN_LIMIT
    with pytest.raises(RuntimeError, match=r"has ended \(turn_limit\)"):
        _ = env.running
    assert (env.adapted(), env.outcome(), env.trajectory_text()) == (None, None, None)


def test_marks_name_the_numbers_of_outcome_and_form():
    marks = OutcomeMetrics("right", "penalty", full_form=0.0)
    assert [marks.outcome_of({"right": 0.5}), marks.outcome_of({})] == [
        Outcome.of(0.5),
        Outcome.of(None),
    ]
    assert [marks.form_of({"penalty": value}) for value in (0.0, -0.1, 0.5)] == [True, False, True]
    assert marks.form_of({}) is None
    assert (
        OutcomeMetrics().outcome_of({"right": 1.0}),
        OutcomeMetrics().form_of({"form": 1.0}),
    ) == (None, None)
    assert OutcomeMetrics(form="form").form_of({"form": 1.0}) is True
    assert measured({"a": 0.0, "b": None}) == {"a": 0.0}


def test_a_term_is_weighed():
    assert TokenTerm("penalty", (0, 3), 0.5, -2.0).reward == -1.0
    assert TokenTerm("bonus", (0, 3), 0.5).reward == 0.5

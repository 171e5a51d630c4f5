"""A trainer that is asked to end, in the order of verl's loop; `tests/e2e` kills whole runs."""

from types import SimpleNamespace

import pytest
from torchdata.stateful_dataloader import StatefulDataLoader

from docagent_rl.training.trainer import stopping
from docagent_rl.training.trainer.base import before_each_poll
from docagent_rl.training.trainer.stopping import StoppingMixin


class Loop:
    """verl's loop with nothing to train: each step draws two questions and plays them in two
    looks.
    """

    def fit(self, manager):
        while self.global_steps <= 4:
            self.on_step_begin()
            self.step({}, {})
            if self.global_steps in self.due:
                self._save_checkpoint()
            self.on_validate_begin()
            self.global_steps += 1
        self.finished = True

    def on_step_begin(self):
        pass

    def on_validate_begin(self):
        pass

    def step(self, metrics, timing):
        self.prepare()
        for part in range(self.parts):
            self.local_trigger_step = part
            for _ in range(2):
                self.buffer._sync_metadata_from_transfer_queue()
        self.weights = self.global_steps

    def prepare(self):
        self.iterator = self.iterator or iter(self.train_dataloader)
        self._submit_batch_to_rollout(
            {"uid": [f"q{value}" for value in next(self.iterator).tolist()]}
        )

    def _submit_batch_to_rollout(self, batch):
        self.queue["train"] |= {f"{uid}{row}": {} for uid in batch["uid"] for row in ("", "_0_0")}

    def _save_checkpoint(self):
        position = self.train_dataloader.state_dict()
        queue = {name: set(keys) for name, keys in self.queue.items()}
        self.checkpoints.append((self.global_steps, self.weights, position, queue))

    def _shutdown_dump_executor(self):
        self.shut = True


class ScriptedRequest:
    """A stop request that is made at a certain look, and is overdue some looks later."""

    def __init__(self, trainer, asked, overdue):
        self.trainer, self.first, self.last, self.confirmed = trainer, asked, overdue, False

    @property
    def asked(self):
        return self.trainer.looks >= self.first

    @property
    def overdue(self):
        return self.trainer.looks >= self.last

    def confirm(self):
        self.confirmed = True


class Trainer(StoppingMixin, Loop):
    """A trainer that is asked to end after some looks into the queue."""

    def __init__(self, asked=99, overdue=99, *, due=(), parts=1, mode="sync", ended=None):
        self.global_steps, self.due, self.parts, self.trainer_mode = 1, due, parts, mode
        self.local_trigger_step, self.weights, self.looks = 0, 0, 0
        self.iterator, self.finished, self.shut = None, False, False
        self.train_dataloader = StatefulDataLoader(list(range(20)), batch_size=2)
        self.queue = {"train": {"other": {}, "other_0_0": {}}, "val": {"v": {}}}
        self.checkpoints, self.calls = [], []
        self._stop_request = ScriptedRequest(self, asked, overdue)
        self.buffer = SimpleNamespace(_sync_metadata_from_transfer_queue=self.look)
        before_each_poll(self.buffer, self._give_up_in_time)
        self.checkpoint_manager = SimpleNamespace(
            abort_replicas=lambda: self.calls.append("abort"),
            sleep_replicas=lambda: self.calls.append("sleep"),
        )
        self.current_mode = SimpleNamespace(value="rollout")
        self.fit(SimpleNamespace(agent_loop_workers=["worker"]))

    def fit(self, manager):
        self.agent_loop_manager = manager
        super().fit(manager)

    def look(self):
        self.looks += 1

    def switch_to_trainer(self):
        self.calls.append("switch")

    def next_questions(self):
        """Return the questions that a run which resumes from the last checkpoint draws."""
        loader = StatefulDataLoader(list(range(20)), batch_size=2)
        loader.load_state_dict(self.checkpoints[-1][2])
        return next(iter(loader)).tolist()


@pytest.fixture(autouse=True)
def ended(monkeypatch):
    """Give each trainer a queue of its own; return the list of workers that were ended."""
    killed = []
    made = []
    begin = Trainer.__init__

    def note(self, *args, **options):
        made.append(self)
        begin(self, *args, **options)

    def clear(keys, partition_id):
        for key in keys:
            del made[-1].queue[partition_id][key]

    queue = SimpleNamespace(kv_list=lambda name: {name: dict(made[-1].queue[name])}, kv_clear=clear)
    monkeypatch.setattr(Trainer, "__init__", note)
    monkeypatch.setattr(stopping, "tq", queue)
    monkeypatch.setattr(stopping.ray, "kill", killed.append)
    return killed


def test_a_run_that_nobody_asks_to_end_does_all_steps(ended):
    trainer = Trainer(due=(2, 4))
    assert trainer.finished
    assert [saved[0] for saved in trainer.checkpoints] == [2, 4]
    assert (trainer._stop_request.confirmed, ended) == (False, [])


def test_a_step_in_time_is_finished_and_saved_whatever_the_frequency(ended):
    trainer = Trainer(asked=3)  # in the second step
    step, weights, _, queue = trainer.checkpoints[-1]
    assert (step, weights, trainer.finished) == (2, 2, False)
    assert trainer.next_questions() == [4, 5]
    assert queue["val"] == set()
    assert (trainer._stop_request.confirmed, trainer.shut, ended, trainer.calls) == (
        True,
        True,
        ["worker"],
        ["abort", "sleep"],
    )


def test_what_is_saved_is_not_saved_twice(ended):
    trainer = Trainer(asked=3, due=(2,))
    assert [saved[0] for saved in trainer.checkpoints] == [2]
    assert (trainer._stop_request.confirmed, ended) == (True, [])


def test_a_rollout_that_takes_too_long_is_given_up_and_its_questions_are_drawn_again():
    trainer = Trainer(asked=3, overdue=3, mode="colocate_async")
    step, weights, _, queue = trainer.checkpoints[-1]
    assert (step, weights) == (1, 1)
    assert trainer.next_questions() == [2, 3]
    # of the first step, which another would have cleared, and of others under way
    assert queue == {"train": {"q0", "q0_0_0", "q1", "q1_0_0", "other", "other_0_0"}, "val": set()}


def test_the_first_step_of_a_start_leaves_nothing_to_save(ended):
    trainer = Trainer(asked=0, overdue=0)
    assert (trainer.checkpoints, trainer._stop_request.confirmed, trainer.looks, ended) == (
        [],
        True,
        0,
        [],
    )
    trainer = Trainer(asked=1, overdue=1)
    assert (trainer.checkpoints, trainer._stop_request.confirmed, trainer.looks) == ([], True, 1)


def test_a_step_that_is_trained_in_part_is_not_given_up():
    """The step's weights belong to no step, so it continues until its end or that of the driver's
    patience.
    """
    trainer = Trainer(asked=7, overdue=7, parts=2)  # in the second part of the second step
    assert [saved[:2] for saved in trainer.checkpoints] == [(2, 2)]
    assert trainer.next_questions() == [4, 5]


def test_separate_servers_keep_playing_and_the_trainers_own_free_their_memory():
    assert Trainer(asked=3, mode="separate_async").calls == ["switch"]


class Deaths(Trainer):
    """A trainer that learns of a death in each look into the queue."""

    def look(self):
        super().look()
        self._give_up_on_request("a server died.")


def test_a_rollout_with_a_death_is_given_up_as_soon_as_the_run_is_asked_to_stop(caplog):
    trainer = Deaths(asked=3)
    assert [saved[:2] for saved in trainer.checkpoints] == [(1, 1)]
    assert trainer.next_questions() == [2, 3]
    assert "the rollout of step 2 was abandoned: a server died." in caplog.text
    # a step that is trained in part goes on
    assert Deaths(asked=7, parts=2).checkpoints[-1][:2] == (2, 2)

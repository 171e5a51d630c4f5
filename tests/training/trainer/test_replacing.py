"""The order in which dead parts are replaced around verl's calls; `tests/e2e` kills real ones."""

import json
from types import SimpleNamespace

import pytest
import transfer_queue as tq
from ray.exceptions import ActorUnavailableError
from tensordict import TensorDict
from tensordict.tensorclass import NonTensorData, NonTensorStack

from docagent_rl.base.errors import InfrastructureError
from docagent_rl.training.trainer import replacing
from docagent_rl.training.trainer.base import before_each_poll
from docagent_rl.training.trainer.replacing import (
    MOST,
    Replacing,
    ReplacingMixin,
)
from docagent_rl.training.trainer.stopping import RunStoppedError
from docagent_rl.watch import replaced

VERSION = 7


def actor(name):
    return SimpleNamespace(_actor_id=SimpleNamespace(hex=lambda: name))


class ScriptedServers:
    """Stands for `Servers`; a new server has the name of the dead one with a dash."""

    def __init__(self, manager):
        self.names, self.calls, self.run = manager.names, manager.calls, manager.run

    @property
    def handles(self):
        return {name: actor(name) for name in self.names}

    def remember(self):
        pass

    def clear(self, dead):
        self.run.meet("clear", dead)
        self.calls.append(("clear", *self.living(dead)))

    def abort(self, dead):
        self.run.meet("abort", dead)
        self.calls.append(("abort", *self.living(dead)))

    def sleep(self, dead):
        self.run.meet("sleep", dead)
        self.calls.append(("sleep", *self.living(dead)))

    def end(self, dead):
        # Ray does not call an end that was asked for a death
        self.run.dead -= set(dead)
        if dead:
            self.calls.append(("end", *sorted(dead)))

    def living(self, dead):
        return [name for name in self.names if name not in dead]

    def replace(self, dead):
        self.calls.append(("new server", *sorted(dead)))
        self.names[:] = [f"{name}'" if name in dead else name for name in self.names]


class ScriptedManager:
    def __init__(self, run):
        self.run, self.calls, self.prompts = run, run.calls, None
        self.workers = [actor("w0"), actor("w1")]
        self.undelivered_s = 0.0

    def is_undelivered(self, after_s):
        return self.undelivered_s >= after_s

    def abandon(self, dead):
        self.run.meet("abandon", dead)
        self.calls.append(("abandon", *sorted(dead)))

    def forget_images(self, dead):
        self.run.meet("forget", dead)
        self.calls.append(("forget", *sorted(dead)))

    def replace(self, dead):
        self.calls.append(("new worker", *sorted(dead)))
        self.workers = [
            actor(f"{name}'") if name in dead else actor(name)
            for name in (each._actor_id.hex() for each in self.workers)
        ]

    def play_again(self):
        self.calls.append(("play", *self.prompts["uid"]))


class ScriptedRun:
    """A trainer with two servers and two workers, some of which are dead."""

    def __init__(self, monkeypatch):
        self.calls, self.dead, self.covered, self.queue = [], set(), [], {}
        self.global_steps = VERSION
        self.llm_server_manager = SimpleNamespace(names=["s0", "s1"], calls=self.calls, run=self)
        self.checkpoint_manager = SimpleNamespace(
            update_weights=lambda version: self.calls.append(("weights", version)),
            sleep_replicas=self.sleep,
        )
        self.meetings, self.looks, self.to_die = {}, 0, None
        self.asked = False
        self.manager = ScriptedManager(self)
        monkeypatch.setattr(replacing, "Servers", ScriptedServers)
        monkeypatch.setattr(replacing.Deaths, "find", self.find)
        monkeypatch.setattr(replacing, "AGAIN_S", 0.0)
        monkeypatch.setattr(replaced, "put_value", self.put)
        monkeypatch.setattr(tq, "kv_list", lambda name: {name: dict(self.queue)})
        monkeypatch.setattr(tq, "kv_clear", self.clear)
        monkeypatch.setattr(tq, "kv_batch_put", self.put_prompts)
        self.replacing = Replacing(self, self.manager)
        self.replacing.install()
        self.calls.clear()

    def meet(self, name, dead):
        """Let a part die in a call, after some looks for the dead; the call fails as long as it
        does not leave the part out.
        """
        if name in self.meetings:
            victim, looks = self.meetings[name]
            if victim not in dead:
                self.looks = looks
                self.to_die = victim
                raise ActorUnavailableError("not reached", None)

    def find(self, servers, workers, wait_s=0.0):
        if self.to_die and wait_s:
            self.looks -= 1
            if self.looks < 0:
                self.dead |= {self.to_die}
        return {name: f"{name} died." for name in (*servers, *workers) if name in self.dead}

    def sleep(self):
        self.meet("sleep", {})
        self.calls.append(("sleep all",))

    def _give_up_on_request(self, reason):
        if self.asked:
            raise RunStoppedError(reason)

    def put(self, name, value):
        found = json.loads(value)
        self.covered.append((" ".join(found["covered"]), " ".join(found["before"])))

    def ask(self, uids, rows):
        """Begin a rollout that has come to these rows."""
        self.manager.prompts = TensorDict(
            {
                "uid": NonTensorStack(*uids),
                "global_steps": NonTensorData(VERSION + 1),
            },
            batch_size=[len(uids)],
        )
        self.queue = {uid: {"status": "finished"} for uid in uids} | {key: {} for key in rows}

    def clear(self, keys, partition_id):
        for key in keys:
            del self.queue[key]

    def put_prompts(self, keys, partition_id, tags):
        self.queue |= dict(zip(keys, tags, strict=True))

    def release_images(self, keys):
        self.calls.append(("release", *sorted(keys)))


@pytest.fixture
def run(monkeypatch):
    return ScriptedRun(monkeypatch)


def test_a_dead_server_gets_the_same_weights_and_all_of_the_rollout_is_played_again(run):
    run.ask(["a", "b"], ["a_0_0", "a_1_0", "b_1_0", "other_0_0"])
    run.dead = {"s0"}
    buffer = SimpleNamespace(_sync_metadata_from_transfer_queue=lambda: run.calls.append("sync"))
    before_each_poll(buffer, run.replacing.look)
    buffer._sync_metadata_from_transfer_queue()
    assert run.calls == [
        ("abandon", "s0"),
        ("clear", "s1"),
        ("sleep", "s1"),
        ("new server", "s0"),
        ("weights", VERSION),
        ("release", "a_0_0", "a_1_0", "b_1_0"),
        ("play", "a", "b"),
        "sync",
    ]
    again = {"is_prompt": True, "status": "pending", "global_steps": VERSION + 1}
    assert run.queue == {"other_0_0": {}, "a": again, "b": again}
    assert run.covered[0] == ("s0 s1 w0 w1", "")
    # nothing is covered while weights are updated
    assert run.covered[-2:] == [("", "s0"), ("s0' s1 w0 w1", "s0")]
    assert run.replacing.read() == {"docagent/replaced/servers": 1, "docagent/replaced/workers": 0}
    assert run.replacing.read() == {"docagent/replaced/servers": 0, "docagent/replaced/workers": 0}


def test_a_dead_worker_changes_no_server(run):
    run.ask(["a"], [])
    run.dead = {"w1"}
    run.replacing.look()
    assert run.calls == [
        ("abandon", "w1"),
        ("clear", "s0", "s1"),
        ("forget", "w1"),
        ("new worker", "w1"),
        ("release",),
        ("play", "a"),
    ]
    assert run.covered[-1] == ("s0 s1 w0 w1'", "w1")
    assert run.replacing.read() == {"docagent/replaced/servers": 0, "docagent/replaced/workers": 1}


def test_a_look_at_once_waits_for_no_turn_and_for_the_answers_of_servers(run, monkeypatch):
    monkeypatch.setattr(replacing, "AGAIN_S", 1000.0)
    run.ask(["a"], [])
    assert not run.replacing.look()
    run.dead = {"s0"}
    assert not run.replacing.look()
    run.dead = set()
    run.to_die = "s0"  # as its server says when it is asked anew
    assert run.replacing.look(at_once=True)
    assert run.calls[-1] == ("play", "a")
    run.to_die = None
    assert not run.replacing.look(at_once=True)


def test_a_server_that_dies_after_a_rollout_is_replaced_before_the_next_weights(run):
    run.ask(["a"], ["a_0_0"])
    run.meetings = {"sleep": ("s1", 3)}
    run.checkpoint_manager.sleep_replicas()
    # an engine that outlives its server holds memory that the trainer needs
    assert run.calls == [("sleep", "s0"), ("end", "s1")]
    # agent workers are not replaced while the trainer reads their images
    assert run.covered[-1] == ("s0 s1", "")
    run.calls.clear()
    run.checkpoint_manager.update_weights(VERSION + 1)
    assert run.calls == [("new server", "s1"), ("weights", VERSION + 1)]
    assert run.covered[-2:] == [("", "s1"), ("s0 s1' w0 w1", "s1")]


def test_a_server_that_cannot_be_reached_and_lives_ends_the_run(run, monkeypatch):
    monkeypatch.setattr(replacing, "NODE_S", 0.1)
    run.meetings = {"sleep": ("s1", 1 << 30)}
    with pytest.raises(ActorUnavailableError):
        run.checkpoint_manager.sleep_replicas()


@pytest.mark.parametrize(
    ("call", "victim"),
    [
        ("abandon", "w0"),
        ("clear", "s1"),
        ("forget", "w0"),
        ("sleep", "s1"),
    ],
)
def test_a_part_that_dies_while_another_one_is_replaced_is_replaced_with_it(run, call, victim):
    run.ask(["a"], ["a_0_0"])
    run.dead = {"s0"} if call == "sleep" else {"w1"}
    run.meetings = {call: (victim, 2)}
    both = {*run.dead, victim}
    run.replacing.look()
    servers, workers = ([name for name in sorted(both) if name[0] == kind] for kind in "sw")
    assert [call for call in run.calls if call[0].startswith("new")] == [
        *([("new server", *servers)] if servers else []),
        *([("new worker", *workers)] if workers else []),
    ]
    assert (("weights", VERSION) in run.calls) == bool(servers)
    assert run.calls[-1] == ("play", "a")
    assert set(run.covered[-1][1].split()) == both


def test_a_rollout_of_which_a_living_worker_got_nothing_is_played_again_and_counts(run):
    run.ask(["a"], ["a_0_0"])
    run.manager.undelivered_s = replacing.NODE_S - 1
    run.replacing.look()
    assert run.calls == []
    run.manager.undelivered_s = replacing.NODE_S
    for _ in range(MOST):
        run.calls.clear()
        run.replacing.look()
        assert [call[0] for call in run.calls] == ["abandon", "clear", "release", "play"]
    with pytest.raises(InfrastructureError, match="could not be reached when the rollout began"):
        run.replacing.look()


def test_deaths_while_others_are_replaced_count(run):
    run.ask(["a"], [])
    run.dead = {"w0", "w1"}
    run.meetings = {"clear": ("s1", 0)}
    with pytest.raises(InfrastructureError, match="3 rollout servers or agent workers"):
        run.replacing.look()
    assert run.covered[-1] == ("", "")


def test_a_run_that_was_asked_to_stop_replaces_nothing(run):
    run.ask(["a"], [])
    run.asked, run.dead = True, {"w0"}
    with pytest.raises(RunStoppedError, match=r"w0 died\."):
        run.replacing.look()
    assert run.calls == []
    # the watchdog must not end the run while its step is saved
    run.checkpoint_manager.abort_replicas()
    run.checkpoint_manager.sleep_replicas()
    assert run.covered[-1] == ("s0 s1", "w0")


def test_a_stopped_run_ends_its_rollout_though_servers_are_dead(run):
    run.asked, run.dead = True, {"s0"}
    run.meetings = {"abort": ("s1", 2)}
    run.checkpoint_manager.abort_replicas()
    run.checkpoint_manager.sleep_replicas()
    assert run.calls == [("abort",), ("sleep",), ("end", "s0", "s1")]


def test_a_run_that_was_asked_to_stop_updates_no_weights_of_new_servers(run):
    run.dead = {"s0"}
    run.checkpoint_manager.sleep_replicas()
    run.calls.clear()
    run.asked = True
    with pytest.raises(RunStoppedError, match=r"s0 died\."):
        run.checkpoint_manager.update_weights(VERSION + 1)
    assert run.covered[-1][1] == "s0"
    # as the trainer does before it saves
    run.checkpoint_manager.abort_replicas()
    run.checkpoint_manager.sleep_replicas()
    assert run.calls == [("abort", "s1"), ("sleep", "s1")]


def test_weights_without_a_version_are_those_of_the_last_one(run):
    run.checkpoint_manager.update_weights(VERSION + 2)
    run.checkpoint_manager.update_weights(None)
    run.calls.clear()
    run.dead = {"s0"}
    run.replacing.look()
    assert ("weights", VERSION + 2) in run.calls


def test_too_many_deaths_in_a_step_end_the_run_and_are_reported(run):
    run.ask(["a"], [])
    for number in range(MOST):
        run.dead = {"s0" + "'" * number}
        run.replacing.look()
    run.dead = {"w1"}
    with pytest.raises(InfrastructureError, match=r"3 rollout servers or agent workers.*w1 died"):
        run.replacing.look()
    covered, before = run.covered[-1]
    assert covered == ""
    assert "w1" not in before
    # from the end of a step to that of the next there may be as many again
    run.replacing.read()
    run.replacing.look()
    assert "w1'" in run.covered[-1][0]


class Loop:
    """verl's loop, in which a worker dies in the last validation."""

    def fit(self, manager):
        self.step({}, {})
        self.global_steps = VERSION
        self.run.dead = {"w1"}
        self._replace_the_dead()

    def step(self, metrics, timing):
        pass


class Trainer(ReplacingMixin, Loop):
    pass


def test_what_is_replaced_after_the_last_step_is_logged(run, monkeypatch, caplog):
    monkeypatch.setattr(replacing, "replaces_parts", lambda config: True)
    trainer = Trainer()
    vars(trainer).update(vars(run), config=None, run=run)
    trainer._give_up_on_request, trainer.release_images = lambda _: None, run.release_images
    run.ask(["a"], [])
    trainer.fit(run.manager)
    assert caplog.messages[-1] == (
        "replaced after the last step, in no metric: 0 servers and 1 workers"
    )


def test_nothing_is_asked_of_anything_while_all_live(run):
    run.ask(["a"], ["a_0_0"])
    run.replacing.look()
    run.checkpoint_manager.sleep_replicas()
    run.checkpoint_manager.update_weights(VERSION + 1)
    assert run.calls == [("sleep all",), ("weights", VERSION + 1)]

"""The agent loop manager, when it does not reach a worker."""

import pytest
from ray.exceptions import ActorDiedError, ActorUnavailableError
from tensordict import TensorDict

from docagent_rl.training.agent_loop.manager import DocAgentLoopManager


@pytest.mark.parametrize(
    ("error", "arguments"), [(ActorDiedError, ()), (ActorUnavailableError, ("not reached", None))]
)
def test_a_rollout_that_does_not_reach_a_worker_is_left_to_the_trainer(
    monkeypatch, error, arguments
):
    def fail(self, prompts):
        raise error(*arguments)

    made = object.__new__(DocAgentLoopManager)
    made._replaces = True
    base = DocAgentLoopManager.__base__
    monkeypatch.setattr(base, "generate_sequences", fail)
    assert not made.is_undelivered(0.0)
    made.generate_sequences(TensorDict({}, batch_size=[]))
    assert made.is_undelivered(0.0)
    assert not made.is_undelivered(60.0)
    monkeypatch.setattr(base, "generate_sequences", lambda *_: None)
    made.play_again()
    assert not made.is_undelivered(0.0)
    monkeypatch.setattr(base, "generate_sequences", fail)
    made._replaces = False
    with pytest.raises(error):
        made.play_again()

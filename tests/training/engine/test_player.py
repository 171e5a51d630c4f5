"""A tiny model in vLLM on the CPU plays real trajectories, in a process of its own."""

import asyncio
import json
import subprocess

import pytest

from docagent_rl.lab.sft.ledgers import replay
from docagent_rl.rollout.images import join_features
from docagent_rl.rollout.trajectory import read_trajectories
from docagent_rl.training.engine.player import draw_seed

RECIPE = "doc_v_star_qwen2_5_vl_7b"
"""A system whose prompt shows images."""
VALUES = "actor_rollout_ref.rollout.val_kwargs"
SCRIPT = """
import asyncio, json, sys
from pathlib import Path
from docagent_rl.checks.recipe_check import composed_recipe
from docagent_rl.samples.questions import read_questions
from docagent_rl.training.engine.player import EnginePlayer


async def main(out, model, recipe, *overrides):
    player = await EnginePlayer.open(composed_recipe(recipe, list(overrides)), model, seed=3)
    try:
        samples = read_questions(out / "questions.jsonl")
        plan = [(one, trajectory) for one in samples for trajectory in range(2)]
        together = await asyncio.gather(*(player.play(*one) for one in plan))
        alone = [await player.play(*one) for one in reversed(plan)][::-1]
    finally:
        await player.close()
    for name, trajectories in (("together", together), ("alone", alone)):
        (out / f"{name}.jsonl").write_text("".join(t.to_json() + "\\n" for t in trajectories))
    (out / "identity.json").write_text(json.dumps(player.identity))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), *sys.argv[2:]))
"""


@pytest.fixture(scope="module")
def played(long_workspace, tmp_path_factory, warm_python):
    """Return trajectories of two questions, played at the same time and one after the other."""
    folder = tmp_path_factory.mktemp("engine")
    (folder / "play.py").write_text(SCRIPT)
    samples = [long_workspace.sample("short"), long_workspace.sample("long")]
    (folder / "questions.jsonl").write_text("".join(f"{sample.to_json()}\n" for sample in samples))
    overrides = [
        "+profile=cpu",
        f"docagent.workspace={long_workspace.path}",
        "docagent.provision=null",
        "docagent.rollout.turn_tokens=24",
        f"{VALUES}.do_sample=true",
        f"{VALUES}.temperature=1.0",
    ]
    command = [
        warm_python,
        folder / "play.py",
        folder,
        long_workspace.path / "model",
        RECIPE,
        *overrides,
    ]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert ended.returncode == 0, ended.stderr[-3000:]
    return folder


@pytest.mark.slow
def test_trajectories_are_recorded_token_by_token_and_replay(played, resources_of):
    resources = resources_of(RECIPE)
    for trajectory in read_trajectories(played / "together.jsonl"):
        assert not trajectory.masked, trajectory.error
        assert trajectory.metrics["turns"] == len(trajectory.turns) >= 1
        for turn in trajectory.turns:
            assert turn.token_ids
            assert len(turn.log_probs) == len(turn.token_ids)
            assert max(turn.log_probs) <= 0.0
            assert resources.codec.decode(turn.token_ids) == turn.text
        (ledger, *_) = replay(trajectory, resources.codec)
        assert ledger.prompt_length == trajectory.prompt_tokens
        assert ledger.response_length == trajectory.response_tokens


@pytest.mark.slow
def test_a_trajectory_is_the_same_alone_and_among_others(played, long_workspace):
    together, alone = (
        [
            [turn.token_ids for turn in each.turns]
            for each in read_trajectories(played / f"{name}.jsonl")
        ]
        for name in ("together", "alone")
    )
    assert together == alone
    assert together[0] != together[1]  # two trajectories of a question draw differently
    identity = json.loads((played / "identity.json").read_text())
    assert (identity["player"], identity["model"]) == ("engine", str(long_workspace.path / "model"))
    assert len(identity["weights"]) == 64
    assert identity["environment"]["system"] == "doc_v_star"
    assert identity["sampling"]["temperature"] == 1.0
    assert identity["limits"] == {"prompt": 1536, "response": 1024, "turn": 24, "min_turn": 8}


@pytest.mark.slow
def test_log_probs_are_the_models_own(played, long_workspace, resources_of):
    """transformers computes the log-probs of the first turn again."""
    import torch
    from transformers import Qwen2_5_VLForConditionalGeneration

    model = Qwen2_5_VLForConditionalGeneration.from_pretrained(long_workspace.path / "model").eval()
    resources = resources_of(RECIPE)
    trajectory = next(read_trajectories(played / "together.jsonl"))
    ledger = replay(trajectory, resources.codec)[0]
    turn = trajectory.turns[0]
    ids = torch.tensor([ledger.token_ids[: ledger.prompt_length + len(turn.token_ids)]])
    shown = len(
        [part for message in trajectory.prompt for part in message["parts"] if "image" in part]
    )
    assert shown >= 1
    images, _ = asyncio.run(
        resources.encoder.encode([image.ref for image in ledger.images[:shown]])
    )
    with torch.no_grad():
        logits = model(
            input_ids=ids,
            mm_token_type_ids=(ids == resources.codec.image_token_id).long(),
            **join_features(images),
        ).logits[0, ledger.prompt_length - 1 : -1]
    logits[:, resources.codec.image_token_id] = float("-inf")
    expected = torch.log_softmax(logits, -1)[range(len(turn.token_ids)), turn.token_ids]
    assert torch.allclose(expected, torch.tensor(turn.log_probs), atol=2e-2)


def test_every_turn_has_a_seed_of_its_own():
    def draw():
        return [
            draw_seed(r, q, s, t)
            for r in range(2)
            for q in "ab"
            for s in range(3)
            for t in range(3)
        ]

    assert len(set(draw())) == len(draw())
    assert draw() == draw()

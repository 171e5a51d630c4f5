import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import Qwen2Config, Qwen2ForCausalLM
from verl.workers.utils.padding import no_padding_2_padding

from docagent_rl.losses.config import KlPlace, KlScope
from docagent_rl.losses.positions import ObservationRule, predicting_states
from docagent_rl.training.tensors import ROLLOUT_MASK, read_rows, response_part
from tests.training.workers.batches import batch, nested, rule


def marks(text: str, scope: KlScope, at: KlPlace, kind: str) -> str:
    mask = getattr(rule(scope, at), kind)(read_rows(batch([text], [2])))
    return "".join("x" if marked else "." for marked in mask[0].tolist())


@pytest.mark.parametrize(
    ("scope", "at", "expected"),
    [
        #                                  sssoiiiosso
        (KlScope.IMAGE, KlPlace.LABEL, "....xxx...."),
        (KlScope.ALL, KlPlace.LABEL, "...xxxxx..x"),
        # the states of the images predict the two next images and the token after them
        (KlScope.IMAGE, KlPlace.STATE, ".....xxx..."),
        # the state before a sampled token is that token's, in verl's term; the last state predicts
        # nothing
        (KlScope.ALL, KlPlace.STATE, "....xxxx..."),
    ],
)
def test_marks(scope, at, expected):
    assert marks("sssoiiiosso", scope, at, "observations") == expected
    images = "....xxx...." if at is KlPlace.LABEL else ".....xxx..."
    assert marks("sssoiiiosso", scope, at, "images") == images


def test_a_model_without_images_has_none():
    rows = read_rows(batch(["sii"], [1])).to(torch.device("cpu"))
    blind = ObservationRule(KlScope.ALL, KlPlace.LABEL, None)
    assert blind.observations(rows).tolist() == [[False, True, True]]
    assert not blind.images(rows).any()


def test_padding_and_rows_without_a_sampled_token_do_not_count():
    rows = read_rows(batch(["si", "iioo", "soiio"], [1, 4, 2]))
    assert rows.responses.shape == (3, 5)
    for scope, counts in ((KlScope.IMAGE, [1, 0, 2]), (KlScope.ALL, [1, 0, 4])):
        assert rule(scope).observations(rows).sum(1).tolist() == counts
        assert rule(scope).images(rows).sum(1).tolist() == [1, 0, 2]


def test_a_sampled_placeholder_is_no_observation():
    data = batch(["si"], [1])
    data["response_mask"] = nested([torch.tensor([1, 1])])
    assert not rule(KlScope.ALL).observations(read_rows(data)).any()
    assert not rule(KlScope.ALL).images(read_rows(data)).any()


def test_a_row_of_which_all_is_rejected_has_no_observations():
    data = batch(["soi", "soi"], [1, 1])
    data[ROLLOUT_MASK] = data["response_mask"]
    data["response_mask"] = nested([torch.tensor([0, 0, 0]), torch.tensor([1, 0, 0])])
    for at in KlPlace:
        assert rule(KlScope.ALL, at).observations(read_rows(data)).any(1).tolist() == [False, True]


def test_a_rejected_token_is_no_observation():
    data = batch(["sios", "ss"], [1, 1])
    data[ROLLOUT_MASK] = data["response_mask"]
    data["response_mask"] = nested([torch.tensor([1, 0, 0, 0]), torch.tensor([0, 0])])
    rows = read_rows(data)
    assert rows.sampled.tolist() == [[True, False, False, True], [True, True, False, False]]
    assert rule(KlScope.ALL).observations(rows).tolist() == [
        [False, True, True, False],
        [False] * 4,
    ]


@given(
    st.lists(
        st.tuples(st.integers(1, 4), st.text("soi", min_size=1, max_size=9)), min_size=1, max_size=5
    )
)
@settings(deadline=None)
def test_states_of_both_layouts_against_a_loop(spec):
    prompts, responses = [n for n, _ in spec], [text for _, text in spec]
    rows = read_rows(batch(responses, prompts))
    lengths = [n + len(text) for n, text in spec]
    # a state is its row and position; the packed layout may be padded at its end
    states = [torch.tensor([[r, p] for p in range(length)]) for r, length in enumerate(lengths)]
    packed = torch.cat([*states, torch.full((2, 2), -1)])[None]
    padded = torch.nested.to_padded_tensor(nested(states), -1)
    for scope in KlScope:
        for at in KlPlace:
            mask = rule(scope, at).observations(rows)
            expected = [
                [r, n - 1 + int(j)] for r, n in enumerate(prompts) for j in mask[r].nonzero()
            ]
            assert predicting_states(packed, mask, rows, packed=True).tolist() == expected
            assert predicting_states(padded, mask, rows, packed=False).tolist() == expected


def test_states_are_those_that_log_probs_are_read_from():
    config = Qwen2Config(
        vocab_size=11,
        hidden_size=8,
        intermediate_size=8,
        num_hidden_layers=1,
        num_attention_heads=1,
        num_key_value_heads=1,
        initializer_range=0.5,
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = Qwen2ForCausalLM(config)
    data = batch(["siiosi", "oois"], [3, 2])
    rows = read_rows(data)
    hidden = [model.model(row[None]).last_hidden_state[0] for row in data["input_ids"].unbind()]
    logits = [model.lm_head(states).log_softmax(-1) for states in hidden]
    # verl: the label of a position is the token after it, over the whole packed batch
    labels = torch.roll(data["input_ids"].values(), -1)
    log_probs = torch.cat(logits).gather(1, labels[:, None])[:, 0]
    verls = torch.nested.nested_tensor_from_jagged(log_probs, data["input_ids"].offsets())
    table = no_padding_2_padding(verls, data)
    mask = rule(KlScope.ALL).observations(rows)
    ours = model.lm_head(
        predicting_states(torch.cat(hidden)[None], mask, rows, packed=True)
    ).log_softmax(-1)
    torch.testing.assert_close(ours.gather(1, rows.responses[mask][:, None])[:, 0], table[mask])
    for row, part in enumerate(response_part(verls, data)):
        assert part.tolist() == table[row, : len(part)].tolist()


def test_states_pass_gradients():
    rows = read_rows(batch(["sii"], [2]))
    hidden = torch.zeros(1, 5, 3, requires_grad=True)
    predicting_states(hidden, rule().observations(rows), rows, packed=True).sum().backward()
    assert hidden.grad[0, :, 0].tolist() == [0, 0, 1, 1, 0]

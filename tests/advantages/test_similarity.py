import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from docagent_rl.advantages.similarity import Negatives, SelfWeight, baseline_weights, cosines
from docagent_rl.base.errors import UserError
from tests.advantages.batches import checked

ALL = torch.ones(1, 3, dtype=torch.bool)
NEAR_ZERO_SUM = torch.tensor([[[1.0, -0.6, -0.5], [-0.6, 1.0, 0.9], [-0.5, 0.9, 1.0]]])


@checked
@given(
    st.integers(1, 7),
    st.integers(0, 10**6),
    st.sampled_from([Negatives.CLAMP, Negatives.AFFINE, Negatives.SOFTMAX]),
    st.sampled_from(SelfWeight),
    st.sampled_from([1e-3, 0.2, 5.0]),
)
def test_weights_are_a_distribution(
    size: int, seed: int, negatives: Negatives, self_weight: SelfWeight, temperature: float
) -> None:
    generator = torch.Generator().manual_seed(seed)
    similar, usable = cosines(torch.randn(2, size, 3, generator=generator))
    present = torch.ones(2, size, dtype=torch.bool)
    present[1, size // 2 + 1 :] = False
    w = baseline_weights(
        similar,
        present,
        usable,
        negatives=negatives,
        self_weight=self_weight,
        temperature=temperature,
    )
    assert ((w >= 0) & (w <= 1)).all()
    assert (similar.diagonal(dim1=1, dim2=2) == 1).all()
    others = present.sum(-1, keepdim=True) - int(self_weight == SelfWeight.LOO)
    torch.testing.assert_close(w.sum(-1), (present & (others > 0)).double())
    assert not w[~present].any()
    assert not w.transpose(1, 2)[~present].any()
    if self_weight == SelfWeight.LOO:
        assert not w.diagonal(dim1=1, dim2=2).any()


def test_cosines_by_hand() -> None:
    similar, usable = cosines(torch.tensor([[[3.0, 4.0], [4.0, 3.0], [-6.0, -8.0]]]))
    want = torch.tensor([[[1, 0.96, -1], [0.96, 1, -0.96], [-1, -0.96, 1]]])
    torch.testing.assert_close(similar, want)
    assert usable.all()
    assert similar.abs().max() <= 1.0


def test_rounding_does_not_leave_the_range() -> None:
    generator = torch.Generator().manual_seed(0)
    vectors = torch.randn(1, 1, 5, generator=generator) * torch.linspace(-3, 3, 60)[:, None]
    assert cosines(vectors)[0].abs().max() == 1.0


def test_a_low_temperature_compares_with_the_nearest_of_the_others() -> None:
    similar = torch.tensor([[[1.0, -0.9, -0.8], [-0.9, 1.0, 0.1], [-0.8, 0.1, 1.0]]])
    options = {"negatives": Negatives.SOFTMAX, "temperature": 1e-3, "self_weight": SelfWeight.LOO}
    found = baseline_weights(similar, ALL, ALL, **options)[0]
    torch.testing.assert_close(found, torch.tensor([[0.0, 0, 1], [0, 0, 1], [0, 1, 0]]).double())


def test_very_small_and_very_large_vectors() -> None:
    similar, usable = cosines(torch.tensor([[[1e-30, 1e-30], [1e30, 1e30], [0.0, 2.0]]]))
    assert usable.all()
    assert float(similar[0, 0, 1]) == pytest.approx(1.0)
    assert float(similar[0, 1, 2]) == pytest.approx(0.5**0.5)


@pytest.mark.parametrize("bad", [[0.0, 0.0], [float("nan"), 1.0], [float("inf"), 1.0]])
def test_unusable_vectors_weigh_uniformly(bad: list[float]) -> None:
    similar, usable = cosines(torch.tensor([[bad, [1.0, 0.0], [1.0, 0.1]]]))
    assert usable.tolist() == [[False, True, True]]
    assert similar[0, 0].tolist() == [1.0, 0.0, 0.0]
    assert torch.isfinite(similar).all()
    assert baseline_weights(similar, ALL, usable)[0, 0].tolist() == pytest.approx([1 / 3] * 3)
    loo = baseline_weights(similar, ALL, usable, self_weight=SelfWeight.LOO)
    assert loo[0, 0].tolist() == pytest.approx([0, 0.5, 0.5])
    alone, usable = cosines(torch.tensor([[bad]]))
    assert baseline_weights(alone, ALL[:, :1], usable).tolist() == [[[1.0]]]
    absent = torch.tensor([[True, False, False]])
    assert baseline_weights(similar, absent, usable.expand(1, 3))[0].tolist() == [
        [1, 0, 0],
        [0] * 3,
        [0] * 3,
    ]


def test_raw_weights_explode() -> None:
    raw = baseline_weights(NEAR_ZERO_SUM, ALL, ALL, negatives=Negatives.CLAMP)
    assert raw[0, 0].tolist() == [1.0, 0.0, 0.0]
    for own, other, weight in ((1.0, -0.9985, 1 / 0.0015), (1.0, -0.9, 10.0), (0.001, 0.0, 1.0)):
        pair = torch.tensor([[[own, other], [other, own]]], dtype=torch.float64)
        found = baseline_weights(pair, ALL[:, :2], ALL[:, :2], negatives=Negatives.RAW)
        assert float(found[0, 0, 0]) == pytest.approx(weight)
        assert pair[0, 0].tolist() == [own, other]
    with pytest.raises(UserError, match=r"0\.001"):
        baseline_weights(NEAR_ZERO_SUM, ALL, ALL, negatives=Negatives.RAW)


def test_softmax_needs_a_temperature() -> None:
    for temperature in (None, 0.0, -1.0):
        with pytest.raises(UserError, match="temperature"):
            baseline_weights(
                NEAR_ZERO_SUM, ALL, ALL, negatives=Negatives.SOFTMAX, temperature=temperature
            )

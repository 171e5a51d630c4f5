from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Annotated, get_args

import pytest
from pydantic import Field

from docagent_rl.advantages.signature import REQUIRED, option_type, options_of
from docagent_rl.base.errors import UserError

if TYPE_CHECKING:
    from docagent_rl.advantages import AdvantageInputs, Advantages
    from docagent_rl.advantages.groups import Std


def keywords(inputs: AdvantageInputs, *, decay: float = 0.9, std: Std | None = None) -> Advantages: ...


def positional(inputs, decay: Annotated[float, Field(ge=0)] = 0.9, *, power): ...


def wrapped(function):
    @functools.wraps(function)
    def call(*args, **kwargs):
        return function(*args, **kwargs)

    return call


def test_options_are_what_follows_the_batch():
    assert options_of("mine", keywords) == {"decay": 0.9, "std": None}
    assert options_of("mine", positional) == {"decay": 0.9, "power": REQUIRED}
    assert options_of("mine", wrapped(positional)) == {"decay": 0.9, "power": REQUIRED}
    assert options_of("mine", lambda *args, **kwargs: None) == {}


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda: None, "must take the batch, an AdvantageInputs, as its first argument"),
        (lambda *, inputs: None, "must take the batch"),
        (lambda inputs, decay, /: None, "option decay cannot be given by its name: remove the '/'"),
    ],
)
def test_functions_that_cannot_be_called(function, message):
    with pytest.raises(UserError, match=message):
        options_of("mine", function)


def test_only_the_type_of_the_option_is_read():
    assert option_type("mine", keywords, "decay") is float
    assert option_type("mine", wrapped(keywords), "decay") is float
    assert get_args(option_type("mine", positional, "decay"))[0] is float
    with pytest.raises(UserError, match=r"type 'Std \| None' of option std cannot be read .*TYPE_CHECKING"):
        option_type("mine", keywords, "std")

"""The number of cases of damage that are tried, and the definition of a clear refusal."""

import re
from random import Random

_UNCLEAR = re.compile(r"Traceback \(most recent|<[\w.]+ object at 0x|^\s*$")


def pytest_addoption(parser):
    parser.addoption(
        "--faults", type=int, default=1, help="so many times as many cases of tests/faults"
    )


def cases(module, config) -> range:
    """Return the numbers of a module's cases. Kinds take turns, so that the first cases try each of
    them once.
    """
    return range(module.CASES * config.getoption("--faults", default=1))


def pytest_generate_tests(metafunc):
    if "number" in metafunc.fixturenames:
        metafunc.parametrize("number", cases(metafunc.module, metafunc.config))


def chance(module: str, number: int) -> Random:
    """Return the random numbers of a case, which depend only on its number."""
    return Random(f"{module}/{number}")


def is_clear(message: str, *names: str) -> bool:
    """Return whether a message says what is wrong, and names one of `names` if there are any."""
    told = len(message) <= 4000 and not _UNCLEAR.search(message)
    return told and (not names or any(name in message for name in names))

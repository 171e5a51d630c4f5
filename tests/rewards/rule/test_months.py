import pytest

from docagent_rl.rewards.rule.months import respell_months


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("3. Mai 2019", "3 May 2019"),
        ("den 12. Oktober 2020", "12 October 2020"),
        ("1er fevrier 2021", "1 February 2021"),
        ("3 de abril de 2021", "3 April 2021"),
        ("Juni 2010", "June 2010"),
        ("3 April 2021", "3 April 2021"),
        ("Mai", "Mai"),
        ("Mai Lan", "Mai Lan"),
    ],
)
def test_respell(text, expected):
    assert respell_months(text) == expected

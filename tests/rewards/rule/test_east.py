import pytest

from docagent_rl.rewards.rule.east import respell_chinese, with_verdict


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("三百五十", "350"),
        ("一万二千", "12000"),
        ("二〇二一", "2021"),
        ("十五", "15"),
        ("三个", "3个"),
        ("百分之四十五", "45%"),
        ("2021年4月3日", " 2021-4-3 "),
        ("2019年", "2019 "),
        ("2019年之前", "2019年之前"),
        ("第3页", " page 3 "),
        ("5公里", "5 km "),
        ("40美元", "40 usd "),
        ("1.2亿元", "1.2亿 cny "),
        ("10至20", "10-20"),
        ("3比1", "3:1"),
        ("张伟先生", "张伟"),
        ("张三", "张三"),
        ("北京", "北京"),
    ],
)
def test_respell(text, expected):
    assert respell_chinese(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("是的\uff0c支付了", "yes\uff0c支付了"),
        ("没错", "yes"),
        ("不是", "no"),
        ("没有\uff0c产品没有通过认证", "no\uff0c产品没有通过认证"),
        ("是不是", "是不是"),
        ("是北京", "是北京"),
        ("", ""),
    ],
)
def test_verdicts(text, expected):
    assert with_verdict(text) == expected

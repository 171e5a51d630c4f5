"""Conversion of Chinese numbers, dates, units, page labels and verdicts to their English form."""

import re

_DIGITS: dict[str, int] = {
    char: value
    for value, chars in enumerate(["零〇", "一", "二两", "三", "四", "五", "六", "七", "八", "九"])
    for char in chars
}
_PLACES = {"十": 10, "百": 100, "千": 1000}
_SCALES = {"万": 10**4, "亿": 10**8}
_COUNTED = "个名人位家次天页项种款台条座层倍岁年月日号元%"
_NUMERAL = re.compile(
    f"[零〇一二两三四五六七八九十][零〇一二两三四五六七八九十百千万亿]+|[一二两三四五六七八九十](?=[{_COUNTED}])"
)
_RESPELT = [
    (re.compile(pattern), respelt)
    for pattern, respelt in (
        (r"百分之 ?(\d+(?:\.\d+)?)", r"\1%"),
        (r"([12]\d{3}) ?年 ?(1[0-2]|0?[1-9]) ?月 ?([0-3]?\d) ?[日号]", r" \1-\2-\3 "),
        (r"(?<!\d)([12]\d{3}) ?年(?![前后以之])", r"\1 "),
        (r"第 ?(\d+) ?页", r" page \1 "),
        (r"第 ?(\d+) ?章", r" chapter \1 "),
        (r"第 ?(\d+) ?节", r" section \1 "),
        (r"表格? ?(\d)", r" table \1"),
        (r"图 ?(\d)", r" figure \1"),
        (r"(?<=[\d万亿]) ?(?:美元|美金)", " usd "),
        (r"(?<=[\d万亿]) ?欧元", " eur "),
        (r"(?<=[\d万亿]) ?日元", " jpy "),
        (r"(?<=[\d万亿]) ?英镑", " gbp "),
        (r"(?<=[\d万亿]) ?(?:人民币|元人民币|元)", " cny "),
        (r"(?<=\d) ?(?:公里|千米)", " km "),
        (r"(?<=\d) ?平方米", " square m "),
        (r"(?<=\d) ?厘米", " cm "),
        (r"(?<=\d) ?毫米", " mm "),
        (r"(?<=\d) ?米", " meter "),
        (r"(?<=\d) ?(?:公斤|千克)", " kg "),
        (r"(?<=\d) ?吨", " tonne "),
        (r"(?<=\d) ?摄氏度", " degree c "),
        (r"(?<=\d) ?(?:小时|个小时)", " hour "),
        (r"(?<=\d) ?分钟", " minute "),
        (r"(?<=\d) ?秒", " second "),
        (r"(?<=\d) ?天", " day "),
        (r"(?<=[\d%]) ?[至到](?=\d)", "-"),
        (r"(?<=[\u4e00-\u9fff]{2})(?:先生|女士|博士|教授)", ""),
        (r"(\d) ?比 ?(?=\d)", r"\1:"),
    )
]
_VERDICT = re.compile(
    r"\A\W*(?:(?P<yes>是的?|对的?|正确|没错|有的?|可以|会|能|はい)|(?P<no>不是的?|否|没有|不对?|错误|不可以|不能|不会|无|いいえ))(?=\W|\Z)"
)


def respell_chinese(text: str) -> str:
    """Convert Chinese numerals, dates, units and page labels in a text to English ones."""
    text = _NUMERAL.sub(_number, text)
    for pattern, respelt in _RESPELT:
        text = pattern.sub(respelt, text)
    return text


def with_verdict(text: str) -> str:
    """Replace the first word of a text with "yes" or "no" if it says that in Chinese or
    Japanese.
    """
    return _VERDICT.sub(lambda found: "yes" if found["yes"] else "no", text)


def _number(found: re.Match[str]) -> str:
    numeral = found[0]
    if not any(char in _PLACES or char in _SCALES for char in numeral):
        return "".join(str(_DIGITS[char]) for char in numeral)
    total = part = digit = 0
    for char in numeral:
        if char in _DIGITS:
            digit = _DIGITS[char]
        elif char in _PLACES:
            part += max(digit, 1) * _PLACES[char]
            digit = 0
        else:
            total += (part + digit) * _SCALES[char]
            part = digit = 0
    return str(total + part + digit)

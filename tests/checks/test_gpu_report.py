"""Reports of `make gpu-check` as `recipes budget --time --measured` reads them."""

import json
import re
from dataclasses import replace

import pytest

from docagent_rl.base.errors import UserError
from docagent_rl.checks.cards import SPEEDS, card_of
from docagent_rl.checks.gpu_report import measured_rates
from docagent_rl.checks.rates import RateName, Rates, rates_markdown
from tools.gpu_check.check import Machine, Outcome, Result, passed
from tools.gpu_check.registry import find
from tools.gpu_check.report import as_json

H200 = Machine("NVIDIA H200", 139.7, vllm=True)
RESULTS = {
    "widths": passed("", rates={RateName.TRAINING: 300e12}),
    "transfer": passed("", rates={RateName.SYNC: 9e9}, mib=3415.0),
    "serving": passed("", rates={RateName.PREFILL: 500e12, RateName.DECODING: 2.4e12}),
}


def report(machine=H200, **results: Result) -> str:
    """Return the text of a report with these results on the machine's device."""
    found = results or RESULTS
    return as_json(
        machine,
        [(find(name), replace(each, device=machine.device)) for name, each in found.items()],
    )


@pytest.fixture
def file(tmp_path):
    return tmp_path / "gpu-check.json"


def test_speeds_become_shares_of_the_cards_peak(file):
    file.write_text(report())
    found = measured_rates(file)
    peak = SPEEDS["h200"]
    assert {name: rate.value for name, rate in found.items()} == {
        RateName.TRAINING: pytest.approx(300e12 / peak.operations),
        RateName.PREFILL: pytest.approx(500e12 / peak.operations),
        RateName.DECODING: pytest.approx(0.5),
        RateName.SYNC: 9e9,
    }
    date = json.loads(file.read_text())["date"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", date)
    assert found[RateName.SYNC].source == (
        f"measured on NVIDIA H200, {date}: transfer of gpu-check.json"
    )


def test_what_was_not_measured_keeps_its_constant(file):
    failed = Result(Outcome.FAIL, "", rates={"training": 1e12})
    file.write_text(report(widths=failed, transfer=RESULTS["transfer"]))
    rates = Rates().with_measured(measured_rates(file))
    assert (rates.training, rates.prefill, rates.sync.value) == (
        Rates().training,
        Rates().prefill,
        9e9,
    )
    table = rates_markdown(rates).splitlines()
    assert [row.split(" | ")[1] for row in table[2:]] == ["0.28", "0.4", "0.6", "9e+09"]
    assert table[3].endswith("| assumed |")
    assert "measured on NVIDIA H200" in table[5]


def changed(**fields) -> str:
    return json.dumps(json.loads(report()) | fields)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "not a report of this version's `make gpu-check`"),
        ("[1]", "not a report"),
        ("{}", "date: missing"),
        (changed(date="yesterday"), "date"),
        (changed(speed=1), "speed"),
        (report().replace('"sync": ', '"synch": '), "synch"),
        (report().replace("9000000000.0", "-1"), "sync"),
        (report(replace(H200, gpu=None)), "without a GPU"),
        (report(replace(H200, gpu="NVIDIA B200")), "'NVIDIA B200'"),
        (report(imports=passed("")), "no check that measures a constant"),
        (report().replace("300000000000000.0", "9e15"), "more than the peak of the card h200"),
    ],
)
def test_a_wrong_file_is_refused(file, text, words):
    file.write_text(text)
    with pytest.raises(UserError, match=re.escape(words)) as caught:
        measured_rates(file)
    assert "gpu-check.json" in str(caught.value)


def test_a_missing_file_is_refused(file):
    with pytest.raises(UserError, match=r"gpu-check\.json: it cannot be read"):
        measured_rates(file)


@pytest.mark.parametrize(
    ("gpu", "card"),
    [
        ("NVIDIA H100 80GB HBM3", "h100"),
        ("NVIDIA A100-SXM4-40GB", "a100-40"),
        ("NVIDIA A100 80GB PCIe", "a100-80"),
        ("NVIDIA RTX A6000", "a6000"),
        ("NVIDIA GeForce RTX 4090", "rtx4090"),
        ("NVIDIA GeForce RTX 4090 Laptop GPU", None),
        ("NVIDIA RTX 6000 Ada Generation", None),
        ("NVIDIA A10", "a10"),
        ("NVIDIA A10G", None),
    ],
)
def test_a_card_by_the_name_of_its_gpu(gpu, card):
    assert card_of(gpu) == card

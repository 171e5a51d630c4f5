"""The trainer's process of a rehearsal has an environment of its own."""

import sys

from docagent_rl.lab.rehearsal import rehearsing


def test_a_rehearsal_attaches_to_no_cluster(tmp_path, monkeypatch):
    monkeypatch.setenv("RAY_ADDRESS", "10.0.0.1:6379")
    printed = tmp_path / "printed"
    program = tmp_path / "python"
    program.write_text(f'#!/bin/sh\necho "$RAY_ADDRESS $VERL_PLATFORM" > {printed}\n')
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    status, meter = rehearsing._run("some_recipe", [])
    assert status == 0
    assert meter.loopback_bytes >= 0
    assert printed.read_text().split() == ["cpu"]

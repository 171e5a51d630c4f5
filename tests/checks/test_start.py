from __future__ import annotations

import os

from omegaconf import OmegaConf

from docagent_rl.checks.start import TITLES_VARIABLE, end_earlier, pass_on_environment
from docagent_rl.watch.leftovers import RUN_VARIABLE, earlier_starts


def test_every_start_has_an_id_of_its_own_that_all_its_processes_have(tmp_path, monkeypatch):
    ids = []
    for name in (RUN_VARIABLE, TITLES_VARIABLE):
        monkeypatch.setenv(name, "")
    for _ in range(2):
        config = OmegaConf.create({"docagent": {"run_dir": str(tmp_path)}, "ray_kwargs": {"ray_init": {}}})
        end_earlier(config)
        pass_on_environment(config)
        ids.append(config.ray_kwargs.ray_init.runtime_env.env_vars[RUN_VARIABLE])
        assert os.environ[RUN_VARIABLE] == ids[-1]
    assert earlier_starts(tmp_path) == (ids[1], ids[0])
    assert ids[0] != ids[1]

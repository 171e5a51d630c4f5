"""The commands that are printed once an agent is trained."""

from pathlib import Path

from docagent_rl.lab.own_agent.next_steps import commands_to_type
from tests.lab.stages.commands import check_words, words_of


def test_what_to_type_next_is_parsed_by_its_commands(agent, tmp_path):
    for values in ({}, {"retriever": "hybrid"}, {"recipe": "alden_qwen2_5_vl_7b"}):
        text = commands_to_type(agent(**values), Path("my agent"))
        lines = [line.strip() for line in text.splitlines() if "docagent-rl" in line]
        assert [line.split()[1] for line in lines] == ["ask", "view"]
        for line in lines:
            (words,) = words_of(line, tmp_path)
            check_words(words)
        assert "--set +profile=cpu" in lines[0]
    chosen = {"recipe": "vrag_rl_qwen2_5_vl_7b", "retriever": "bm25"}
    real = commands_to_type(agent(profile=None, gpus=1, **chosen), Path("a"))
    assert "--index a/index" in real
    assert "+profile=cpu" not in real

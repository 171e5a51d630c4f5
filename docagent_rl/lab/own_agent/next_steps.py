"""The commands to type once an agent is trained."""

import shlex
from pathlib import Path

from docagent_rl.lab.own_agent.own_agent import OwnAgent


def commands_to_type(agent: OwnAgent, folder: Path) -> str:
    """Return the commands to type after the last stage; `folder` is the agent's, as typed."""
    words = ["docagent-rl", "ask"]
    if agent.recipe.corpus:
        words += ["QUESTION", "--store", str(folder / "store"), *_searching(agent, folder)]
    else:
        words += ["DOCUMENT.pdf", "QUESTION", "--retriever", agent.project.retriever]
    words += ["--recipe", agent.recipe.name, "--model", str(folder / "runs" / agent.recipe.name)]
    profile = ["+profile=cpu"] if agent.tiny else []
    quoted = " ".join(f"--set {each}" for each in (*profile, *agent.in_process(), *agent.chosen()))
    ask = f"{shlex.join(words)} {quoted}".rstrip().replace("QUESTION", '"YOUR QUESTION"')
    view = shlex.join(["docagent-rl", "view", str(folder / "runs" / agent.recipe.name)])
    return f"Ask your agent:\n  {ask}\nLook at its training:\n  {view}\n"


def _searching(agent: OwnAgent, folder: Path) -> list[str]:
    indexes = agent.indexes
    if len(indexes) == 1:
        return ["--index", str(folder / indexes[0].folder)]
    return ["--retriever", agent.project.retriever]

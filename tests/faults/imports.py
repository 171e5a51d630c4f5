"""What the commands import, but what reads its environment when it is loaded."""

import importlib

MODULES = (
    "docagent_rl.cli",
    "docagent_rl.tiny.demo",
    "docagent_rl.synth.layout",
    "docagent_rl.synth.questions",
    "docagent_rl.documents.worker_process",
    "docagent_rl.tiny.play",
    "docagent_rl.tiny.warm_up",
    "docagent_rl.tiny.qwen2_5_vl",
    "bias_card.card",
    "bias_card.plot",
    "transformers.models.qwen2_5_vl.modeling_qwen2_5_vl",
    "transformers.models.qwen2_5_vl.processing_qwen2_5_vl",
)

for name in MODULES:
    importlib.import_module(name)

"""Trainer modes: verl's three modes with this package's additions (`trainer.v1.trainer_mode`)."""

from verl.trainer.ppo.v1.trainer_base import register_trainer
from verl.trainer.ppo.v1.trainer_colocate_async import PPOTrainerColocateAsync
from verl.trainer.ppo.v1.trainer_separate_async import PPOTrainerSeparateAsync
from verl.trainer.ppo.v1.trainer_sync import PPOTrainerSync

from docagent_rl.training.trainer.mixin import DocAgentTrainerMixin


@register_trainer("docagent_sync")
class DocAgentSync(DocAgentTrainerMixin, PPOTrainerSync):
    """verl's `sync` mode."""

    verl_mode = "sync"


@register_trainer("docagent_colocate_async")
class DocAgentColocateAsync(DocAgentTrainerMixin, PPOTrainerColocateAsync):
    """verl's `colocate_async` mode."""

    verl_mode = "colocate_async"


@register_trainer("docagent_separate_async")
class DocAgentSeparateAsync(DocAgentTrainerMixin, PPOTrainerSeparateAsync):
    """verl's `separate_async` mode."""

    verl_mode = "separate_async"

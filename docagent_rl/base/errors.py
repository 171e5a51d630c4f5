"""The two kinds of failure that are not bugs."""


class UserError(Exception):
    """Bad input or configuration.

    The message names the file, field or id at fault and says what to do. The command line prints it
    without a traceback and exits with status 2; the trainer refuses to start.
    """


class InfrastructureError(Exception):
    """A service failed (retriever, judge, rollout server) after its own retries and deadline.

    It never becomes a reward: the trajectory is retried and, if it fails again, masked out of the
    loss and the group statistics.
    """

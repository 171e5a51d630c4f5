"""A watchdog in the driver of a run: it ends the run if an actor, engine or process of it dies.

Without it verl waits forever in most of these cases: in the replay buffer, in a weight update, or
for resources that Ray does not have. The driver can see all of this in Ray's tables, whatever the
trainer is doing.
"""

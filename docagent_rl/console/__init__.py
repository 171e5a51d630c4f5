"""The console of a training run: the stages of its start, a line a step, a table at each
validation.

Everything else that the driver and Ray's workers print goes to `<run_dir>/console.log`. The trainer
may be on another machine than the driver: what it has to report travels through Ray's key-value
store (`channel.py`).
"""

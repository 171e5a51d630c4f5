"""The console of a training run: stages of the start-up, a line per step, a table per validation.

Everything else that the driver and Ray's workers print goes to `<run_dir>/console.log`. The trainer
may run on another machine than the driver, so its reports go through Ray's key-value store
(`channel.py`).
"""

"""The placement of a run's trainer and of the models that it asks on the GPUs of a cluster."""

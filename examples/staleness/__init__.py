"""A study of asynchronous training: how stale are trajectories if their durations differ much?"""

"""The code around training, which training never imports: agents, evaluation, data, viewer and
tiny models.
"""

"""Everything around training: agents, evaluation, data, viewer, tiny models. The core never imports
it.
"""

"""The learning demonstration: a tiny agent that has to look at pages, before and after training."""

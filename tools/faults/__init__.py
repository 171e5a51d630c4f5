"""Campaigns of faults in the trainer and its services that take too long for tests."""

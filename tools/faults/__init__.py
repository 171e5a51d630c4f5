"""Campaigns on the trainer and its services that take too long for tests."""

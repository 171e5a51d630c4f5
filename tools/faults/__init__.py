"""Campaigns that break the trainer and its services, which take too long for tests."""

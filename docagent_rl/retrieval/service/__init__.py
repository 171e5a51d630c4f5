"""Searches somewhere else: a server and its clients, actors of Ray, and what both are made of."""

"""A page over the folder of a run: its sessions with the pages they saw, its numbers, its warnings."""

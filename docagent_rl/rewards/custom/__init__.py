"""A reward function of the user's own: its section, its file, its signature, and the call of it."""

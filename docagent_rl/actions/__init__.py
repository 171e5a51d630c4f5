"""The actions of agents, the grammars that parse them, and coordinates on pages."""

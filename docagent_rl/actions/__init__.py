"""Actions, grammars and coordinates."""

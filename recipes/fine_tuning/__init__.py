"""Config groups that stand before the recipes' own where verl's supervised trainer runs."""

"""Read rows and configurations of EasyR1, which people bring along (docs/coming_from.md)."""

"""What people bring from EasyR1: its rows and its configuration (docs/coming_from.md)."""

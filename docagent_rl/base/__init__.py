"""Foundations: errors, files, configuration sections, and text from untrusted sources."""

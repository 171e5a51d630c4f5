"""The ground: errors, files, sections of configuration, texts of others."""

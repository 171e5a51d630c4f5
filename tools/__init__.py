"""Tools for developing this repository; the installed package does not import them."""

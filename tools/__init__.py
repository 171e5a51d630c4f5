"""Tools of this repository; nothing that is installed imports them."""

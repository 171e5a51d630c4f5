"""Vision towers that compute the features of an image once for all rows that show it."""

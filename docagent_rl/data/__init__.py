"""Questions about documents: canonical records, their files, and documents made for them."""

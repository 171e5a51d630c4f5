"""Questions to an agent about the user's own documents: preparing the documents, and reporting the
answer with its evidence.
"""

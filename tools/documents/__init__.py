"""Real PDFs for measuring retrieval, fetched from Debian's packages:
`python -m tools.documents FOLDER`.
"""

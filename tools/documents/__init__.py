"""Fetch real PDFs for measuring retrieval from Debian's packages.

python -m tools.documents FOLDER
"""

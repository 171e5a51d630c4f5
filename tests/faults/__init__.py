"""Campaigns of faults: damaged input in great numbers, and what becomes of it.

A campaign is a module of this package with a `CAMPAIGN`; `docs/faults.md` says what is
tried and how to run it.
"""

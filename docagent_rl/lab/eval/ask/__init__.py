"""An agent at work on documents of one's own: kept ready, played, told, and shown with what it
rests on.
"""

"""Trajectories for supervised fine-tuning: who plays them, which are kept, and which questions
remain for RL.
"""

"""Trajectories for supervised fine-tuning: who plays, what is kept, and which questions are left
for RL.
"""

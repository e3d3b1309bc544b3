"""Policies that were learned: DQN and REINFORCE. Deciding by them needs no TensorFlow; training does."""

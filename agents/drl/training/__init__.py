"""How policies are learned: episodes, learners, evaluation, and the run that writes a policy folder."""

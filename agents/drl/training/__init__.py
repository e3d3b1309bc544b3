"""Training of policies: episodes, learners, evaluation, and the run that writes a policy folder."""

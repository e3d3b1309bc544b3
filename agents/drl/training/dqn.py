"""Deep Q-learning."""


class Dqn:
    """To come."""

"""The transition rules of the simulator, compiled by numba."""

"""The transition rules, compiled: array state of many episodes, and the functions that move it."""

"""Commands of `stoker profile`: measure jobs, fit profiles, compare with real Spark."""

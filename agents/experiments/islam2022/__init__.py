"""Experiments of Islam 2022, section 7."""

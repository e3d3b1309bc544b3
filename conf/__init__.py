"""Configuration: the YAML files that ship with Stoker, their typed schemas, and the strict loader."""

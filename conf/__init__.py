"""YAML files and their loader."""

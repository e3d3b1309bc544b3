"""Commands that submit, list, show, follow and end jobs."""

"""All reports made by one command, and the summary that quotes them."""

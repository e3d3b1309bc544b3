"""What learned policies compile: their networks, and episodes played with them."""

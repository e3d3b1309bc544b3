"""The pages for users: what is generated of them, and that what they show is so."""

"""The pages for users: their generated parts, and that their examples are true."""

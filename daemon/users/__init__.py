"""Users: who they are, by what they are known, and which role each route asks for."""

"""Bodies of the HTTP API (pydantic), and how they are built from records."""

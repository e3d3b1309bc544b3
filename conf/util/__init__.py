"""Text and object helpers without configuration."""

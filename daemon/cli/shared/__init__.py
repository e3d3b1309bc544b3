"""Used by every command: client, options, rendering, progress."""

"""Commands that run and maintain a daemon on this machine."""

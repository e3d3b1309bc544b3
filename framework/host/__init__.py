"""Unix users, processes, signals and untrusted files of this machine."""

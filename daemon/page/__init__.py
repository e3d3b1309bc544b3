"""The web page: its files and its stream of snapshots."""

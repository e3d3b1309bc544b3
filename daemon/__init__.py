"""The daemon: starts, wires the components together, serves and stops. Folders are layers, see setup.cfg."""

"""The daemon: starts, wires the components together, serves and stops. Each folder is a layer; setup.cfg orders them."""

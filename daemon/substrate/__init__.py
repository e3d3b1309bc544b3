"""The one room that knows Mesos: builds the substrate that the config names, and runs the embedded Mesos.

The rest of the daemon knows the protocol in `framework/substrate.py` only.
"""

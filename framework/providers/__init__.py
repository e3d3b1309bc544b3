"""Where VMs come from: clouds and their like, behind one small contract (`interface.py`).

When a VM is opened or closed is decided in the cluster model; who calls a provider, and on which threads,
is in `daemon`.
"""

"""Sources of VMs: clouds and their like, behind one small contract (`interface.py`).

The cluster model decides when a VM is opened or closed; `daemon` calls the providers, in threads of its own.
"""

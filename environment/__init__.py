"""The cluster as a model: VMs, jobs, placements, the clock and prices. No I/O lives here.

This folder defines the types that all parts share: types, the view, the policy contract, the check, rounds,
explanations. `model` changes a cluster, `simulation` runs a policy over a workload, `kernel` compiles
episodes, and `training` provides the environments for agents.
"""

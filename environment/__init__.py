"""The cluster as a model: VMs, jobs, placements, the clock and prices. No I/O lives here.

Here are the words that all share: types, the view, the policy contract, the check, rounds, explanations.
How a cluster changes is in `model`, a policy's run over a workload in `simulation`, compiled episodes in
`kernel`, and what agents are trained on in `training`.
"""

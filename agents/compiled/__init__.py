"""Parts of policies in compiled code, and why these policies have a Python form and a compiled one.

The Python form (`agents.greedy.greedy_policy`, `agents.drl.learned_policy`) decides one round. It takes a
`ClusterView` with all resources, VMs that are closed or come, and jobs that grow, and explains each decision:
the daemon needs all of that, and decides seldom.

The compiled form (`agents.greedy.playing`, `agents.drl.play`) plays a whole simulation on the kernel's arrays
without a call to Python: forecasts and lookahead play very many decisions, and wait for the outcome. It knows
only worlds that the kernel knows whole (cpus and memory, a fixed cluster), so it cannot replace the other.

Where both can decide they decide the same, to the last bit:
`tests/environment/simulation/test_compiled_play.py`.
"""

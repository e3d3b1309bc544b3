"""The graph as the compiled functions see it."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from environment.types import FloatArray, IntArray

#: Without sign, as compiled code need not ask then whether an index counts from the end.
IndexArray = NDArray[np.uint32]


class Graph(NamedTuple):
    """Arrays of a bipartite model; L ports, J jobs, R instances, K resources, E edges sorted by instance."""

    #: [R + 1] where an instance's edges begin.
    start: IntArray
    #: [E] the port of the edge.
    port: IndexArray
    #: [E] where it leads.
    instance: IndexArray
    #: [L + 1] where a port's edges begin in `edges`.
    port_start: IntArray
    #: [E] edges, sorted by port.
    edges: IndexArray
    #: [L] the job that a port belongs to; tasks of a gang share one (Zhao 2023, 3.5).
    job: IndexArray
    #: [K, L] requests a_l^k.
    bounds: FloatArray
    #: [K, R] capacities c_r^k.
    capacity: FloatArray
    #: [K, R] the utility's kind, as in `utilities`, and its alpha.
    kinds: IntArray
    alphas: FloatArray
    #: [K] overhead coefficients.
    beta: FloatArray

"""The smallest cluster and queue: compiling policies decide on them once, when they are made.

So their first decision for a user takes no longer than any other. The decision is discarded.
"""

import numpy as np

from environment.resource_arrays import ResourceArrays
from environment.resources import Resources
from environment.types import Job, PlacementRequest, Vm
from environment.view import ClusterView


def smallest() -> tuple[ClusterView, list[PlacementRequest]]:
    """A view of one VM, and a job of one executor that waits for it."""
    one = Resources.of(1.0, 1)
    view = ClusterView(0.0, (Vm("", "", "", one, 1.0),), ResourceArrays.of([one]), np.zeros(1, np.int64))
    return view, [PlacementRequest(Job("", "", one, 1, 0.0), 1)]

"""OgaSched's formulas written down as they stand, in plain Python, for comparison with compiled code."""

import math

from agents.oga.bipartite import UTILITIES, Model

Allocation = dict[tuple[int, int, int], float]


class Plain:
    """Zhao 2023, Algorithm 1 with dictionaries and loops; y by (port, instance, resource)."""

    def __init__(self, model: Model, y: Allocation, eta0: float, decay: float) -> None:
        self.model, self.y, self.eta, self.decay = model, y, eta0, decay
        graph = model.graph
        self.resources = range(len(model.resources))
        self.reach = {
            port: [int(graph.instance[e]) for e in model.edges_of(port)] for port in range(len(model.ports))
        }
        self.served = {
            r: [port for port, reach in self.reach.items() if r in reach] for r in range(len(model.instances))
        }

    def step(self, x: list[float]) -> None:
        """Gradient, ascent and projection."""
        graph, z = self.model.graph, {}
        for port, reach in self.reach.items():
            dominant = self.dominant(port)
            for k in self.resources:
                for r in reach:
                    slope = derivative(int(graph.kinds[k, r]), float(graph.alphas[k, r]), self.y[port, r, k])
                    beta = float(graph.beta[k]) if k == dominant else 0.0
                    z[port, r, k] = self.y[port, r, k] + self.eta * x[port] * (slope - beta)
        for r, ports in self.served.items():
            for k in self.resources:
                asked = [z[port, r, k] for port in ports]
                bounds = [float(graph.bounds[k, port]) for port in ports]
                found = projection(asked, bounds, float(graph.capacity[k, r]))
                for port, value in zip(ports, found, strict=True):
                    self.y[port, r, k] = value
        self.eta *= self.decay

    def overhead(self, port: int, k: int) -> float:
        """beta_k times the port's allocation of k."""
        return float(self.model.graph.beta[k]) * sum(self.y[port, r, k] for r in self.reach[port])

    def dominant(self, port: int) -> int:
        """The resource with the largest overhead (eq. 27)."""
        return max(self.resources, key=lambda k: self.overhead(port, k))

    def reward(self, x: list[float]) -> float:
        """The sum of eq. 7 over ports."""
        graph, total = self.model.graph, 0.0
        for port, reach in self.reach.items():
            if x[port]:
                gain = sum(
                    utility(int(graph.kinds[k, r]), float(graph.alphas[k, r]), self.y[port, r, k])
                    for k in self.resources
                    for r in reach
                )
                total += x[port] * (gain - self.overhead(port, self.dominant(port)))
        return total


def utility(kind: int, alpha: float, y: float) -> float:
    """Zhao 2023, eq. 51; poly starts at zero."""
    return {
        "linear": lambda: alpha * y,
        "log": lambda: alpha * math.log(y + 1),
        "reciprocal": lambda: 1 / alpha - 1 / (y + alpha),
        "poly": lambda: alpha * math.sqrt(y + 1) - alpha,
    }[UTILITIES[kind]]()


def derivative(kind: int, alpha: float, y: float) -> float:
    """The derivative of eq. 51."""
    return {
        "linear": lambda: alpha,
        "log": lambda: alpha / (y + 1),
        "reciprocal": lambda: 1 / (y + alpha) ** 2,
        "poly": lambda: alpha / (2 * math.sqrt(y + 1)),
    }[UTILITIES[kind]]()


def projection(z: list[float], a: list[float], c: float) -> list[float]:
    """Onto {0 <= y <= a, sum y <= c}: the threshold is sought among the sorted breakpoints."""

    def cut(theta: float) -> list[float]:
        return [min(max(value - theta, 0.0), bound) for value, bound in zip(z, a, strict=True)]

    if sum(cut(0.0)) <= c:
        return cut(0.0)
    points = sorted({0.0, *(p for v, b in zip(z, a, strict=True) for p in (v, v - b) if p > 0)})
    high = next(point for point in points if sum(cut(point)) <= c)
    low = points[points.index(high) - 1]
    above, below = sum(cut(low)), sum(cut(high))
    return cut(high if above == below else low + (high - low) * (above - c) / (above - below))

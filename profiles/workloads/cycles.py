"""Whether jobs that come after others come after themselves."""

from collections.abc import Iterable, Mapping


def cycle(after: Mapping[str, Iterable[str]]) -> tuple[str, ...]:
    """Jobs, by name, of which each comes after the next, and the last after the first; empty without any.

    `after` says of each job which others it comes after.
    """
    done: set[str] = set()
    for start in after:
        path: dict[str, None] = {}
        ahead = [(start, iter(after[start]))] if start not in done else []
        path |= dict.fromkeys([start] if ahead else [])
        while ahead:
            name, others = ahead[-1]
            other = next(others, None)
            if other is None:
                ahead.pop()
                del path[name]
                done.add(name)
            elif other in path:
                names = [*path]
                return (*names[names.index(other) :], other)
            elif other not in done and other in after:
                path[other] = None
                ahead.append((other, iter(after[other])))
    return ()

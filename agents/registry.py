"""Which policies there are: names to factories, resolved when asked for. The policies are not here.

A user's own policy is named `module:factory`, or `module:function` for a plain `decide(view, queue)`.
Listing the known policies imports their modules, so one that needs a heavy library imports it in its
factory and not before.
"""

import dataclasses
import difflib
import importlib
import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_type_hints

from pydantic import TypeAdapter, ValidationError

from environment.policy import FunctionPolicy, Policy

POLICIES: dict[str, str] = {
    "rr": "agents.baselines.round_robin:RoundRobin",
    "rrc": "agents.baselines.round_robin:RoundRobinConsolidate",
    "ff": "agents.baselines.first_fit:FirstFit",
    "ilp": "agents.baselines.ilp:IntegerProgram",
    "aep": "agents.baselines.aep:AdaptiveExecutorPlacement",
    "greedy": "agents.greedy.greedy_policy:Greedy",
    "karpenter": "agents.baselines.karpenter:Karpenter",
    "lookahead": "agents.lookahead.lookahead_policy:Lookahead",
    "reinforce": "agents.drl.learned_policy:Reinforce",
    "dqn": "agents.drl.learned_policy:Dqn",
    "best_fit": "agents.baselines.scored:BestFit",
    "least_allocated": "agents.baselines.scored:LeastAllocated",
    "most_allocated": "agents.baselines.scored:MostAllocated",
    "dominant_fit": "agents.baselines.scored:DominantFit",
    "drf": "agents.baselines.drf:DominantResourceFairness",
    "ogasched": "agents.oga.ogasched_policy:OgaSched",
    "random": "agents.baselines.random_choice:RandomChoice",
}


#: Policies of ours that decide for measurements only, and are not listed.
_UNLISTED = frozenset({"agents.baselines.even:Even"})


class PolicyError(ValueError):
    """A policy that cannot be made; the text is fit for a user."""


@dataclass(frozen=True, slots=True)
class Option:
    """One option of a policy; `default` is its Python text, None when the option must be given."""

    name: str
    type: str
    default: str | None


@dataclass(frozen=True, slots=True)
class PolicyInfo:
    """What can be said of a policy without making it."""

    name: str
    summary: str
    options: tuple[Option, ...]


def create(name: str, options: Mapping[str, object] | None = None) -> Policy:
    """Make the policy of that name with these options; PolicyError says what is wrong with either."""
    found = _resolve(name)
    made = found
    if _is_ready(found):
        _no_options(name, options or {})
    else:
        made = _make(name, found, options or {})
    if isinstance(made, Policy):
        return made
    if callable(made):
        return FunctionPolicy(made)
    raise PolicyError(f"policy {name}: its factory made {type(made).__name__}, which cannot decide")


def describe(name: str) -> PolicyInfo:
    """Summary and options of a policy; PolicyError when there is none of that name."""
    factory = _resolve(name)
    kind = None if _is_ready(factory) else _options_type(name, factory)
    fields = () if kind is None else dataclasses.fields(kind)
    hints = get_type_hints(kind) if kind else {}
    options = tuple(Option(f.name, inspect.formatannotation(hints[f.name]), _default(f)) for f in fields)
    text = inspect.getdoc(factory) or "no description"
    return PolicyInfo(name, text.splitlines()[0], options)


def is_ours(name: str) -> bool:
    """Whether a policy comes with Stoker; of any other nobody knows what importing and making it does."""
    return name in POLICIES or name in _UNLISTED


def list_policies() -> tuple[PolicyInfo, ...]:
    """All policies that come with Stoker."""
    return tuple(describe(name) for name in POLICIES)


def _resolve(name: str) -> Any:
    target = POLICIES.get(name, name)
    module_name, colon, attribute = target.partition(":")
    if not (colon and module_name and attribute):
        close = difflib.get_close_matches(name, POLICIES, n=1)
        hint = f"did you mean {close[0]}? " if close else ""
        known = ", ".join(POLICIES)
        raise PolicyError(f"policy {name}: unknown; {hint}known are {known}, or module:factory for your own")
    try:
        module = importlib.import_module(module_name)
    except Exception as error:  # a user's module may raise anything while it is imported
        why = f"{type(error).__name__}: {error}"
        raise PolicyError(f"policy {name}: module {module_name} cannot be imported: {why}") from error
    try:
        found = getattr(module, attribute)
    except AttributeError as error:
        raise PolicyError(f"policy {name}: module {module_name} has no {attribute}") from error
    if not callable(found) and not isinstance(found, Policy):
        raise PolicyError(f"policy {name}: {attribute} is no function or class but {type(found).__name__}")
    return found


def _required(factory: Callable[..., Any]) -> list[inspect.Parameter]:
    try:
        parameters = inspect.signature(factory).parameters.values()
    except (TypeError, ValueError):
        return []
    return [p for p in parameters if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]


def _is_ready(found: Any) -> bool:
    """Whether this is no factory but a policy already, or a plain function `decide(view, queue)`."""
    return not inspect.isclass(found) and (isinstance(found, Policy) or len(_required(found)) == 2)


def _options_type(name: str, factory: Callable[..., Any]) -> type | None:
    """The dataclass that the factory's only argument is annotated with; None when it takes no options."""
    try:
        parameters = list(inspect.signature(factory).parameters)
        hints = get_type_hints(factory.__init__ if inspect.isclass(factory) else factory)
    except (TypeError, ValueError, NameError):
        return None
    kind = hints.get(parameters[0]) if parameters else None
    if inspect.isclass(kind) and dataclasses.is_dataclass(kind):
        return kind
    if _required(factory):
        raise PolicyError(
            f"policy {name}: its factory must take no argument, or one annotated with a dataclass of options"
        )
    return None


def _make(name: str, factory: Callable[..., Any], options: Mapping[str, object]) -> object:
    kind = _options_type(name, factory)
    if kind is None:
        _no_options(name, options)
    try:
        return factory() if kind is None else factory(_options(name, kind, options))
    except PolicyError:
        raise
    except Exception as error:  # a user's factory may raise anything
        raise PolicyError(f"policy {name}: cannot be made: {type(error).__name__}: {error}") from error


def _no_options(name: str, options: Mapping[str, object]) -> None:
    for key in options:
        raise PolicyError(f"policy {name}: {key}: unknown option; this policy takes none")


def _options(name: str, kind: type, options: Mapping[str, object]) -> object:
    fields = {field.name: field for field in dataclasses.fields(kind) if field.init}
    for key in options:
        if key not in fields:
            raise PolicyError(f"policy {name}: {key}: unknown option; {_hint(kind, str(key), list(fields))}")
    hints = get_type_hints(kind, include_extras=True)
    for key, field in fields.items():
        if key not in options and _default(field) is None:
            raise PolicyError(f"policy {name}: {key}: missing; it has no default")
    values = {key: _value(name, key, hints[key], value) for key, value in options.items()}
    try:
        return kind(**values)
    except ValueError as error:
        raise PolicyError(f"policy {name}: {error}") from error


def _hint(kind: type, key: str, known: Sequence[str]) -> str:
    """What would be right; `INSTEAD` of a class of options says it of names that one may remember."""
    instead: Mapping[str, str] = getattr(kind, "INSTEAD", {})
    if key in instead:
        return instead[key]
    close = difflib.get_close_matches(key, known, n=1)
    return f"did you mean {close[0]}?" if close else f"known options: {', '.join(known) or 'none'}"


def _value(name: str, key: str, hint: Any, value: object) -> object:
    try:
        # By way of JSON, since only there strict validation lets a list stand for a tuple.
        return TypeAdapter(hint).validate_json(json.dumps(value), strict=True)
    except ValidationError as error:
        found = error.errors(include_url=False)[0]
        message = found["msg"].removeprefix("Value error, ").removeprefix("Input ")
    except TypeError:
        message = f"should be {inspect.formatannotation(hint)}"
    raise PolicyError(f"policy {name}: {key}: {message}, found {value!r}")


def _default(field: "dataclasses.Field[Any]") -> str | None:
    if field.default is not dataclasses.MISSING:
        return repr(field.default)
    if field.default_factory is not dataclasses.MISSING:
        return repr(field.default_factory())
    return None

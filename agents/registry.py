"""Registry of the policies: names to factories, resolved on demand. The policies are not here.

A user's own policy is named `module:factory`, or `module:function` for a plain `decide(view, queue)`. Its
module is an installed one, or lies in a folder that was passed to `look_in`.

Listing the known policies imports their modules, so one that needs a heavy library imports it in its
factory and not before.
"""

import dataclasses
import difflib
import importlib
import inspect
import json
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_type_hints

from pydantic import TypeAdapter, ValidationError

from agents.overtaking.overtaking_policy import KNOWN_TO, OvertakingOptions, overtaking_of
from conf.errors import ReportedError
from environment.policy import FunctionPolicy, Policy
from environment.policy_faults import foreign, placed

#: Inputs of decisions beside the first job's size and the free resources, in the order of tables: the rest of
#: the queue, jobs' types, their expected durations, the expected ends of running ones, the preferred
#: placement of types, prices of VMs.
FACTS = ("queue", "types", "durations", "ends", "preferences", "prices")


@dataclass(frozen=True, slots=True)
class ListedPolicy:
    """A policy that comes with Stoker: where it is, and on which `FACTS` its decisions depend by default.

    One that places the head of the queue alone takes the options of overtaking besides.
    """

    target: str
    knows: tuple[str, ...] = ()
    head_alone: bool = False


_OF_JOBS = ("durations", "ends", "preferences", "prices")
POLICIES: dict[str, ListedPolicy] = {
    "rr": ListedPolicy("agents.baselines.round_robin:RoundRobin", head_alone=True),
    "rrc": ListedPolicy("agents.baselines.round_robin:RoundRobinConsolidate", head_alone=True),
    "ff": ListedPolicy("agents.baselines.first_fit:FirstFit", head_alone=True),
    "ilp": ListedPolicy("agents.baselines.ilp:IntegerProgram", _OF_JOBS, head_alone=True),
    "aep": ListedPolicy(
        "agents.baselines.aep:AdaptiveExecutorPlacement", ("preferences", "prices"), head_alone=True
    ),
    "greedy": ListedPolicy("agents.greedy.greedy_policy:Greedy", ("queue", *_OF_JOBS)),
    "karpenter": ListedPolicy("agents.baselines.karpenter:Karpenter", ("prices",), head_alone=True),
    "cluster_autoscaler": ListedPolicy(
        "agents.baselines.cluster_autoscaler:ClusterAutoscaler", head_alone=True
    ),
    "lookahead": ListedPolicy("agents.lookahead.lookahead_policy:Lookahead", ("queue", *_OF_JOBS)),
    "reinforce": ListedPolicy("agents.drl.learned_policy:Reinforce", ("queue", *_OF_JOBS)),
    "dqn": ListedPolicy("agents.drl.learned_policy:Dqn", ("queue", "types", "ends", "prices")),
    "best_fit": ListedPolicy("agents.baselines.scored:BestFit", head_alone=True),
    "least_allocated": ListedPolicy("agents.baselines.scored:LeastAllocated", head_alone=True),
    "most_allocated": ListedPolicy("agents.baselines.scored:MostAllocated", head_alone=True),
    "tetris": ListedPolicy("agents.baselines.scored:Tetris", head_alone=True),
    "dominant_fit": ListedPolicy("agents.baselines.scored:DominantFit", head_alone=True),
    "drf": ListedPolicy("agents.baselines.drf:DominantResourceFairness", ("queue", "types")),
    "ogasched": ListedPolicy("agents.oga.ogasched_policy:OgaSched", ("queue", "types", "durations")),
    "random": ListedPolicy("agents.baselines.random_choice:RandomChoice", head_alone=True),
}

#: Policies of ours that decide for measurements only, and are not listed.
_UNLISTED = frozenset({"agents.baselines.even:Even"})

#: Where modules of users' own policies are looked for.
_FOLDERS: list[str] = []


class PolicyError(ReportedError, ValueError):
    """A policy that cannot be made; the text is fit for a user."""


@dataclass(frozen=True, slots=True)
class Option:
    """One option of a policy; `default` is its Python text, None when the option must be given."""

    name: str
    type: str
    default: str | None


@dataclass(frozen=True, slots=True)
class PolicyInfo:
    """Description of a policy without making it; `knows` is None for a policy from outside Stoker."""

    name: str
    summary: str
    options: tuple[Option, ...]
    knows: tuple[str, ...] | None


def look_in(folder: Path | str) -> None:
    """Find modules of users' own policies in that folder, too.

    It comes behind all that is installed, so that no file there takes the place of a package, and only when
    such a policy is named.
    """
    if str(folder) not in _FOLDERS:
        _FOLDERS.append(str(folder))


def looked_in() -> tuple[str, ...]:
    """The folders that were passed to `look_in`."""
    return tuple(_FOLDERS)


def create(name: str, options: Mapping[str, object] | None = None) -> Policy:
    """Make the policy of that name with these options; PolicyError for an invalid name or option."""
    found = _resolve(name)
    if _is_ready(found):
        _no_options(name, options or {})
        made = found
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
    kinds = () if _is_ready(factory) else _kinds(name, factory)
    options = {
        field.name: Option(
            field.name, inspect.formatannotation(get_type_hints(kind)[field.name]), _default(field)
        )
        for kind in reversed(kinds)
        for field in dataclasses.fields(kind)
    }
    text = inspect.getdoc(factory) or "no description"
    ordered = tuple(options[key] for key in _fields(kinds))
    return PolicyInfo(name, text.splitlines()[0], ordered, knows(name, {}))


def knows(name: str, options: Mapping[str, object]) -> tuple[str, ...] | None:
    """`FACTS` that the policy's decisions depend on with these options; None when unknown."""
    listed = POLICIES.get(name)
    if listed is None:
        return None
    more = KNOWN_TO.get(str(options.get("overtake", "none")), ()) if listed.head_alone else ()
    return tuple(fact for fact in FACTS if fact in listed.knows or fact in more)


def weighs(name: str, options: Mapping[str, object]) -> bool:
    """Whether the policy has an option `beta` for the weight of cost, beside these options."""
    factory = _resolve(name)
    kinds = () if _is_ready(factory) else _kinds(name, factory)
    best = options.get("overtake") == "best"
    return any("beta" in _fields([kind]) and (best or kind is not OvertakingOptions) for kind in kinds)


def is_ours(name: str) -> bool:
    """Whether a policy comes with Stoker; importing and making any other may do anything."""
    return name in POLICIES or name in _UNLISTED


def list_policies() -> tuple[PolicyInfo, ...]:
    """All policies that come with Stoker."""
    return tuple(describe(name) for name in POLICIES)


def _resolve(name: str) -> Any:
    target = POLICIES[name].target if name in POLICIES else name
    module_name, colon, attribute = target.partition(":")
    if not (colon and module_name and attribute):
        close = difflib.get_close_matches(name, POLICIES, n=1)
        hint = f"did you mean {close[0]}? " if close else ""
        known = ", ".join(POLICIES)
        raise PolicyError(f"policy {name}: unknown; {hint}known are {known}, or module:factory for your own")
    if not is_ours(name):
        sys.path.extend(folder for folder in _FOLDERS if folder not in sys.path)
    try:
        module = importlib.import_module(module_name)
    except BaseException as error:  # raised while the user's module is imported
        if not foreign(error):
            raise
        if isinstance(error, ModuleNotFoundError) and f"{module_name}.".startswith(f"{error.name}."):
            where = ", nor in ".join((f"no module {error.name} is installed", *_FOLDERS))
            raise PolicyError(f"policy {name}: {where}") from error
        why = placed(error)
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


def _kinds(name: str, factory: Callable[..., Any]) -> tuple[type, ...]:
    """The dataclasses of a policy's options: its own, if any, and those of overtaking if it takes them."""
    own = _options_type(name, factory)
    listed = POLICIES.get(name)
    return (*([own] if own else []), *([OvertakingOptions] if listed and listed.head_alone else []))


def _fields(kinds: Sequence[type]) -> "dict[str, dataclasses.Field[Any]]":
    """Fields by name; of two with the same name, the first."""
    found: dict[str, dataclasses.Field[Any]] = {}
    for kind in kinds:
        for field in dataclasses.fields(kind):
            if field.init:
                found.setdefault(field.name, field)
    return found


def _make(name: str, factory: Callable[..., Any], options: Mapping[str, object]) -> object:
    kinds = _kinds(name, factory)
    if not kinds:
        _no_options(name, options)
    known = list(_fields(kinds))
    for key in options:
        if key not in known:
            raise PolicyError(f"policy {name}: {key}: unknown option; {_hint(kinds[0], str(key), known)}")
    given: list[Any] = [
        _options(name, kind, {k: v for k, v in options.items() if k in _fields([kind])}) for kind in kinds
    ]
    overtaking: OvertakingOptions | None = None
    if kinds and kinds[-1] is OvertakingOptions:
        overtaking = given.pop()
        _check_effect(name, overtaking, {*options} - {*_fields(kinds[:-1])})
    try:
        policy = factory(*given)
    except PolicyError:
        raise
    except BaseException as error:
        if not foreign(error):
            raise
        raise PolicyError(f"policy {name}: cannot be made: {placed(error)}") from error
    return policy if overtaking is None else overtaking_of(policy, overtaking, POLICIES[name].knows)


def _check_effect(name: str, overtaking: OvertakingOptions, given: Collection[str]) -> None:
    try:
        overtaking.check_given(given)
    except ValueError as error:
        raise PolicyError(f"policy {name}: {error}") from error


def _no_options(name: str, options: Mapping[str, object]) -> None:
    for key in options:
        raise PolicyError(f"policy {name}: {key}: unknown option; this policy takes none")


def _options(name: str, kind: type, options: Mapping[str, object]) -> object:
    fields = _fields([kind])
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
    """Hint at a valid option; `INSTEAD` of a class of options provides it for former or foreign names."""
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

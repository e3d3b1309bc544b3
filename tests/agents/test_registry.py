"""Names and options become policies, or an error that a user understands."""

import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from agents.registry import POLICIES, PolicyError, create, describe, list_policies
from environment.policy import Policy
from environment.types import Decision, PlacementRequest, Wait
from environment.view import ClusterView
from tests.builders import make_request, make_view, make_vms


@dataclass(frozen=True, slots=True)
class Patience:
    """Options of the policy below."""

    reason: str
    weight: float = 0.5
    layers: tuple[int, ...] = (64, 64)

    def __post_init__(self) -> None:
        if not 0 <= self.weight <= 1:
            raise ValueError(f"weight: should be within 0 and 1, found {self.weight}")


class Patient:
    """Waits, always."""

    def __init__(self, options: Patience) -> None:
        self.options = options

    def decide(self, view: ClusterView, queue: Sequence[PlacementRequest]) -> Decision:
        """Wait."""
        return Wait(self.options.reason)


def plain(view: ClusterView, queue: Sequence[PlacementRequest]) -> Decision:
    """Waits without a class."""
    return Wait("plainly")


def make_plain() -> object:
    """Makes a plain function."""
    return plain


def make_number() -> int:
    """Makes no policy."""
    return 7


def make_nothing() -> Policy:
    """Cannot be made."""
    raise RuntimeError("no weights found")


def make_from_path(path: str) -> Policy:
    """Takes an argument that is no dataclass."""
    raise AssertionError(path)


ready_made = Patient(Patience("ready made"))
HERE = __name__


def reason(policy: Policy) -> str:
    """The policy's reason for a job to wait."""
    decision = policy.decide(make_view(make_vms(1)), [make_request()])
    assert isinstance(decision, Wait)
    return decision.reason


@pytest.mark.parametrize("name", POLICIES)
def test_every_name_makes_a_policy(name: str) -> None:
    """Each registered policy can be made without options."""
    assert isinstance(create(name), Policy)


def test_options_reach_the_policy() -> None:
    """A list becomes a tuple and an int a float, as the option's type says."""
    policy = create(f"{HERE}:Patient", {"reason": "so", "weight": 1, "layers": [8, 8]})
    assert isinstance(policy, Patient)
    assert policy.options == Patience("so", 1.0, (8, 8))


@pytest.mark.parametrize(("target", "says"), [("plain", "plainly"), ("make_plain", "plainly")])
def test_plain_functions_are_policies(target: str, says: str) -> None:
    """A function `decide(view, queue)` will do, given directly or made by a factory."""
    assert reason(create(f"{HERE}:{target}")) == says


def test_ready_made_policies_are_taken() -> None:
    """A module may hold the policy itself."""
    assert create(f"{HERE}:ready_made") is ready_made


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("fff", {}, "policy fff: unknown; did you mean ff? known are rr, rrc, ff"),
        ("nonsense", {}, "policy nonsense: unknown; known are rr, rrc, ff"),
        (":", {}, "policy :: unknown"),
        ("", {}, "policy : unknown"),
        ("not_there:make", {}, "policy not_there:make: no module not_there is installed"),
        ("..up:make", {}, "cannot be imported"),
        (f"{HERE}:absent", {}, f"module {HERE} has no absent"),
        (f"{HERE}:HERE", {}, "HERE is no function or class but str"),
        (f"{HERE}:make_number", {}, "its factory made int, which cannot decide"),
        (f"{HERE}:make_nothing", {}, "cannot be made: RuntimeError: no weights found"),
        (f"{HERE}:make_from_path", {}, "one annotated with a dataclass of options"),
        ("ff", {"seed": 1}, "policy ff: seed: unknown option; known options: overtake, window"),
        (f"{HERE}:plain", {"seed": 1}, "seed: unknown option; this policy takes none"),
        ("random", {"sed": 1}, "policy random: sed: unknown option; did you mean seed?"),
        ("random", {"colour": 1}, "policy random: colour: unknown option; known options: seed, overtake"),
        ("random", {"seed": "x"}, "policy random: seed: should be a valid integer, found 'x'"),
        ("random", {"seed": True}, "policy random: seed: should be a valid integer, found True"),
        ("random", {"seed": object}, "policy random: seed: should be int, found <class 'object'>"),
        ("random", {"seed": -1}, "policy random: seed: should be 0 or more, found -1"),
        ("lookahead", {"draws": 10**9}, "policy lookahead: draws: should be 1000 or less, found 1000000000"),
        ("ilp", {"time_limit": 1e9}, "policy ilp: time_limit: should be 3600 seconds or less, found 1e+09"),
        (f"{HERE}:Patient", {}, "reason: missing; it has no default"),
        (f"{HERE}:Patient", {"reason": "x", "weight": 2}, "weight: should be within 0 and 1, found 2.0"),
    ],
)
def test_wrong_names_and_options_are_explained(name: str, options: dict[str, object], message: str) -> None:
    """The error names the policy, the key, and the valid values."""
    with pytest.raises(PolicyError) as caught:
        create(name, options)
    assert message in str(caught.value)


@pytest.fixture
def broken_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A module of the user's with an error in it."""
    (tmp_path / "broken_policy.py").write_text("def make(:\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield "broken_policy:make"
    sys.modules.pop("broken_policy", None)


def test_broken_modules_are_explained(broken_module: str) -> None:
    """A syntax error in the user's module is told as such."""
    with pytest.raises(PolicyError, match="broken_policy cannot be imported: SyntaxError"):
        create(broken_module)


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("import sys\nsys.exit(0)", "module leaving_policy cannot be imported: SystemExit: 0"),
        ("import sys\ndef make():\n    sys.exit(0)", "cannot be made: SystemExit: 0"),
    ],
)
def test_a_policy_that_exits_is_refused(
    code: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command does not end as if all were well."""
    (tmp_path / "leaving_policy.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(PolicyError, match=told):
        create("leaving_policy:make")


def test_policies_describe_themselves() -> None:
    """Name, summary, and options with types and defaults."""
    info = describe("random")
    assert (info.name, info.summary.split(":")[0]) == ("random", "Random")
    assert next((o.name, o.type, o.default) for o in info.options) == ("seed", "int", "0")
    assert [o.name for o in info.options][1:] == [
        "overtake", "window", "overtaken_at_most", "beta", "unknown_duration"
    ]  # fmt: skip
    assert [o.name for o in describe("ilp").options if o.name == "beta"] == ["beta"]
    assert [(o.name, o.default) for o in describe(f"{HERE}:Patient").options] == [
        ("reason", None),
        ("weight", "0.5"),
        ("layers", "(64, 64)"),
    ]


def test_all_policies_are_listed_with_a_summary() -> None:
    """`list_policies` has them all in the registry's order, each with a sentence."""
    infos = list_policies()
    assert [info.name for info in infos] == list(POLICIES)
    assert all(info.summary.endswith(".") for info in infos)


def test_the_registry_and_the_baselines_import_no_heavy_library() -> None:
    """Listing the known policies, and making the baselines, leaves numba and TensorFlow alone."""
    program = (
        "import sys; from agents.registry import POLICIES, list_policies, create;"
        "list_policies();"
        "[create(name) for name in POLICIES if 'agents.baselines' in POLICIES[name].target];"
        "sys.exit(' '.join({'numba', 'tensorflow', 'tf_agents'} & set(sys.modules)) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


#: Options of which any number takes the same time: counts of overtaken jobs and of waits, and the number of
#: VMs of `even`, which is at most the job's executors.
COUNTERS = {"overtaken_at_most", "wait_limit", "vms"}


@pytest.mark.parametrize(
    ("policy", "option"),
    [
        (name, option.name)
        for name in POLICIES
        for option in describe(name).options
        if (option.type.partition(" ")[0] == "int" and option.name not in COUNTERS)
        or option.name == "time_limit"
    ],
)
def test_options_that_bound_work_have_a_maximum(policy: str, option: str) -> None:
    """A config cannot make a decision endless, or fill the memory, by one number."""
    with pytest.raises(PolicyError, match=f"{option}: should be .* or less, found"):
        create(policy, {option: 10**10})

"""Amounts of memory as users write them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conf.units import checked_resources, memory_mib, resources_of, resources_text


@pytest.mark.parametrize(
    ("text", "mib"),
    [
        (512, 512),
        (1.5, 2),
        ("512", 512),
        ("512m", 512),
        ("512M", 512),
        ("2g", 2048),
        ("2GiB", 2048),
        ("1.5 gb", 1536),
        (" 1t ", 1024 * 1024),
        ("2048k", 2),
        ("1048576b", 1),
        ("2097152 B", 2),
        ("1p", 1 << 30),
        ("512mb", 512),
        ("2147483647", 2**31 - 1),
    ],
)
def test_amounts(text: object, mib: int) -> None:
    """Numbers are MiB; letters are powers of 1024, in any case."""
    assert memory_mib(text) == mib


@pytest.mark.parametrize(
    "wrong",
    [0, -1, 0.4, "", "g", "-1g", "1x", "1e3", "1 1", "512k", "2147483648", 2**31, 10**400, "9" * 400, True,
     None, [1], float("nan"), float("inf"), float("-inf")],
)  # fmt: skip
def test_what_is_no_amount(wrong: object) -> None:
    """Anything else is refused with an example of the correct form."""
    with pytest.raises(ValueError, match="512m or 2g"):
        memory_mib(wrong)


@given(st.text() | st.integers() | st.floats())
def test_an_amount_or_a_clear_error(value: object) -> None:
    """Every input leads to a number of MiB in range, or to ValueError."""
    try:
        mib = memory_mib(value)
    except ValueError:
        return
    assert isinstance(mib, int)
    assert 1 <= mib <= 2**31


def test_other_resources() -> None:
    """Names as in Mesos; a text of them is read back the same."""
    amounts = {"gpus": 2.0, "disk": 1e5, "licence.x-1": 0.125}
    assert checked_resources(amounts) == amounts
    assert resources_text(amounts) == "gpus=2;disk=100000;licence.x-1=0.125"
    assert resources_of(" gpus = 2 ; disk=100000;licence.x-1=0.125") == amounts
    assert resources_of("") == {}


@pytest.mark.parametrize(
    ("amounts", "complaint"),
    [
        ({"gpus": 0.5}, "gpus: should be a whole number, as Mesos assigns them, found 0.5"),
        ({"disk": 0.0}, "disk: should be 0.001 to 1e"),
        ({"disk": float("nan")}, "disk: should be 0.001 to 1e"),
        ({"disk": 1.0001}, "disk: should have at most three decimals, found 1.0001"),
        ({"mem": 1.0}, "mem: has its own key, memory"),
        ({"cpus": 1.0}, "cpus: has its own key, cpus"),
        ({"ports": 1.0}, "ports: not an amount"),
        ({"a b": 1.0}, "'a b': should be a resource's name"),
    ],
)
def test_amounts_that_mesos_cannot_keep(amounts: dict[str, float], complaint: str) -> None:
    """The error names the wrong resource."""
    with pytest.raises(ValueError, match=complaint):
        checked_resources(amounts)


@pytest.mark.parametrize("text", ["gpus", "gpus=1;gpus=2", "gpus=many", "gpus=1,disk=2"])
def test_texts_that_are_no_amounts(text: str) -> None:
    """Each part is name=number, and no name comes twice."""
    with pytest.raises(ValueError, match="should be"):
        resources_of(text)

"""Dollars: prices by VM type, by host, and by cores and memory; sums by key."""

from pathlib import Path

import numpy as np
import pytest

from audit.costs import costs_of
from audit.prices import PriceError, Prices, load_prices
from conf.loader import ConfigError
from conf.schema.prices import PriceList, VmPrice
from profiles.executor_attributes import ExecutorAttributes
from tests.audit.made_logs import (
    BEGAN,
    ETL,
    added,
    app_end,
    app_start,
    environment,
    read,
    removed,
    task,
    written,
)

#: A VM of 4 cores and 8 GiB that costs 3.6 dollars an hour: a tenth of a cent a second.
LIST = PriceList(types={"big": VmPrice(cpus=4, memory=8192, price_per_hour=3.6)})


def test_a_share_of_a_vm(tmp_path: Path) -> None:
    """Two of four cores are half of the VM: 58 and 35 seconds at 0.0005 dollars each, split by cause."""
    costs = costs_of([read(written(tmp_path, ETL))], Prices(LIST, "big"))
    assert costs.total.total == pytest.approx(93 * 0.0005)
    # 186 core-seconds cost 0.00025 each: 50 of work, 10 failed, 26 start, 40 waiting, 40 driver, 20 tail.
    assert costs.total.dollars == pytest.approx([n * 0.00025 for n in (50, 10, 26, 40, 40, 20)])
    assert costs.without_type == 0
    assert costs.total.memory_used == pytest.approx(512 / 1408)


def test_memory_can_be_the_larger_share(tmp_path: Path) -> None:
    """An executor that takes all memory of a VM costs all of it, and never more."""
    events = [environment(executor__memory="7g"), *ETL[2:]]
    half = costs_of([read(written(tmp_path, ETL))], Prices(LIST, "big")).total.total
    memory = (7168 + 717) / 8192
    whole = costs_of([read(written(tmp_path, events))], Prices(LIST, "big")).total.total
    assert whole == pytest.approx(half * 2 * memory)
    small = PriceList(types={"small": VmPrice(cpus=1, memory=1024, price_per_hour=3.6)})
    assert costs_of([read(written(tmp_path, ETL))], Prices(small, "small")).total.total == pytest.approx(
        0.093
    )


def test_cores_and_memory_of_unknown_vms(tmp_path: Path) -> None:
    """Where no VM type is known, by cores and memory, and that is counted; without such prices, an error."""
    prices = Prices(PriceList(per_core_hour=3.6, per_gib_hour=7.2))
    costs = costs_of([read(written(tmp_path, ETL))], prices)
    assert costs.total.total == pytest.approx(186 * 0.001 + 93 * 1408 / 1024 * 0.002)
    assert costs.without_type == 1
    with pytest.raises(
        PriceError, match=r"no VM type is known in the prices .*; add the type, say --vm TYPE"
    ):
        costs_of([read(written(tmp_path, ETL))], Prices(LIST))


def test_types_by_host_and_by_settings(tmp_path: Path) -> None:
    """A host that is mapped counts before --vm, and that before what the log's settings say."""
    types = {name: VmPrice(cpus=2, memory=8192, price_per_hour=price) for name, price in
             {"a": 3.6, "b": 7.2, "c": 36.0}.items()}  # fmt: skip
    of_settings = environment(databricks__workerNodeTypeId="c", executor__memory="1g")
    app = read(written(tmp_path, [of_settings, *ETL[2:]]))
    hosts = PriceList(types=types, hosts={"host-2": "b"})
    assert costs_of([app], Prices(hosts, "a")).total.total == pytest.approx(58 * 0.001 + 35 * 0.002)
    assert costs_of([app], Prices(hosts)).total.total == pytest.approx(58 * 0.01 + 35 * 0.002)
    unknown = environment(databricks__workerNodeTypeId="d")
    with pytest.raises(PriceError, match="its VM type d is not in the prices"):
        costs_of([read(written(tmp_path, [unknown, *ETL[2:]]))], Prices(PriceList(types=types)))


def test_what_a_daemon_wrote_of_an_executor(tmp_path: Path) -> None:
    """Its launch, its VM's type and its share of that count; values that make no sense do not."""
    types = {name: VmPrice(cpus=4, memory=8192, price_per_hour=3.6) for name in ("big", "other")}
    launched = {"STOKER_LAUNCHED_MS": str((BEGAN + 2) * 1000), "STOKER_VM_TYPE": "big"}

    def dollars(vm: str = "", at: float = 8, **changes: str) -> float:
        attributes = {**launched, "STOKER_VM_SHARE": "0.1", **changes}
        log = [app_start(), added("1", at, info={"Attributes": attributes}), app_end(at + 4)]
        return costs_of([read(written(tmp_path, log))], Prices(PriceList(types=types), vm)).total.total

    assert dollars() == pytest.approx(10 * 0.001 * 0.1)
    assert dollars("other") == pytest.approx(10 * 0.001 * 0.5)
    assert dollars("big", STOKER_VM_SHARE="7") == pytest.approx(4 * 0.001 * 0.5)
    assert dollars("big", STOKER_LAUNCHED_MS="soon") == pytest.approx(4 * 0.001 * 0.5)
    assert dollars(at=1) == pytest.approx(4 * 0.001 * 0.1)  # launched after it came
    assert dollars(at=3700) == pytest.approx(4 * 0.001 * 0.1)  # an hour before


def test_the_price_that_a_daemon_wrote(tmp_path: Path) -> None:
    """It counts before the list's, needs no type there; --vm, a host's type and nonsense go by the list."""
    types = {name: VmPrice(cpus=4, memory=8192, price_per_hour=3.6) for name in ("big", "other")}

    def dollars(price: str, vm_type: str = "big", vm: str = "", host: str = "") -> float:
        told = ExecutorAttributes(BEGAN + 2, vm_type, 0.1).variables
        attributes = {name.removeprefix("SPARK_EXECUTOR_ATTRIBUTE_"): text for name, text in told.items()}
        attributes["STOKER_VM_PRICE"] = price
        log = [app_start(), added("1", 8, info={"Attributes": attributes}), app_end(12)]
        table = PriceList(types=types, hosts={"host-1": host} if host else {})
        costs = costs_of([read(written(tmp_path, log))], Prices(table, vm))
        assert costs.without_type == 0
        return costs.total.total

    assert dollars("1.2") == pytest.approx(10 * 0.001 * 0.1 / 3)
    assert dollars("1.2", "gone") == pytest.approx(10 * 0.001 * 0.1 / 3)
    assert dollars("1.2", vm="big") == pytest.approx(10 * 0.001 * 0.1)
    assert dollars("1.2", host="other") == pytest.approx(10 * 0.001 * 0.5)
    for nonsense in ("0", "-1", "nan", "inf", "1e7", "cheap"):
        assert dollars(nonsense) == pytest.approx(10 * 0.001 * 0.1)


def test_other_memory_on_a_vm_of_which_the_log_has_a_share(tmp_path: Path) -> None:
    """The share shrinks with the memory until cores are the larger part; without the VM's size it stays."""

    def dollars(vm_type: str, memory: int) -> float:
        told = ExecutorAttributes(BEGAN + 2, vm_type, 0.75, 2.0).variables
        info = {name.removeprefix("SPARK_EXECUTOR_ATTRIBUTE_"): text for name, text in told.items()}
        log = [app_start(), added("1", 8, cores=1, info={"Attributes": info}), app_end(12)]
        app = read(
            written(tmp_path, [environment(executor__memory="5g", executor__memoryOverhead="1g"), *log])
        )
        return Prices(LIST).per_hour_with_memory(app, app.executors[0], memory)

    assert [dollars("big", memory) for memory in (6144, 4096, 1024)] == pytest.approx([1.5, 1.0, 0.5])
    assert dollars("not-listed", 1024) == pytest.approx(1.5)


def test_sums(tmp_path: Path) -> None:
    """By application, user, queue and day; several attempts are one application."""
    first = written(tmp_path, ETL, "app-1.1")
    second = written(tmp_path, [app_start(attempt="2"), *ETL[3:]], "app-1.2")
    later = written(tmp_path, [app_start("other", 86400, app="app-2"), task("1", 86400, 86401)], "3")
    costs = costs_of([read(path) for path in (first, second, later)], Prices(LIST, "big"))
    assert [(line.key, line.count, line.applications) for line in costs.by("application")] == [
        ("etl", 2, 1),
        ("other", 1, 1),
    ]
    assert [line.key for line in costs.by("day")] == ["2026-11-01", "2026-11-02"]
    assert [line.key for line in costs.by("user")] == ["ann"]
    assert sum(line.total for line in costs.by("day")) == pytest.approx(costs.total.total)


def test_a_run_of_several_days_is_split_at_midnight(tmp_path: Path) -> None:
    """As the daemon's bill: each day has its own dollars, and all days together the run's."""
    day = 86_400
    log = (
        *(environment(executor__memory="1g"), app_start(at=day // 2), added("1", day // 2)),
        *(added("2", 2 * day), task("1", day, day + 50), removed("1", 2.5 * day), removed("2", 2.5 * day)),
        app_end(2.75 * day),
    )
    costs = costs_of([read(written(tmp_path, log))], Prices(LIST, "big"))
    days = costs.by("day")
    assert [(line.key[-2:], line.count, line.seconds / day) for line in days] == [
        ("01", 1, 0.5),
        ("02", 1, 1.0),
        ("03", 1, 0.75),
    ]
    whole = costs.total
    assert [line.total / whole.total for line in days] == pytest.approx([0.2, 0.4, 0.4])
    assert np.sum([line.dollars for line in days], axis=0) == pytest.approx(np.array(whole.dollars))
    assert np.sum([line.core_seconds for line in days], axis=0) == pytest.approx(np.array(whole.core_seconds))
    assert sum(line.paid_memory_seconds for line in days) == pytest.approx(whole.paid_memory_seconds)
    number, dollars = costs.before(BEGAN + day)
    assert number == 1
    assert dollars == pytest.approx(whole.total * 0.2)
    assert costs.before(BEGAN) == (0, 0.0)


def test_without_executors(tmp_path: Path) -> None:
    """Such an application costs nothing, and is counted."""
    costs = costs_of([read(written(tmp_path, [app_start(), app_end(9)]))], Prices(LIST, "big"))
    assert (costs.total.total, costs.without_executors) == (0, 1)
    assert costs.total.share("work") == 0


def test_the_list_that_ships() -> None:
    """Sizes of a family double, and GPUs are known."""
    prices = load_prices("ec2-us-east-1", "m5.4xlarge")
    found = prices.table.type_named("m5.4xlarge")
    assert found is not None
    assert (found.cpus, found.memory, found.price_per_hour) == (16, 65536, 0.768)
    # By AWS's own list of 2026-01-19.
    listed = {"c4.8xlarge": 1.591, "c5.18xlarge": 3.06, "i4i.xlarge": 0.343, "m7gd.2xlarge": 0.4271}
    for name, price in {**listed, "r6id.32xlarge": 9.6768, "g5.8xlarge": 2.448}.items():
        vm = prices.table.type_named(name)
        assert vm is not None
        assert vm.price_per_hour == pytest.approx(price, rel=0.006), name
    assert prices.table.types["c4.8xlarge"].cpus == 36
    assert prices.table.type_named("m5.tiny") is prices.table.type_named("z9.large") is None


def test_lists_of_ones_own(tmp_path: Path) -> None:
    """CSV and YAML; each error names file and line, and the right form."""
    path = tmp_path / "mine.csv"
    path.write_text("type,cpus,memory,price_per_hour,gpus\nbig,4,8g,3.6,1\n")
    assert load_prices(str(path)).table.types["big"].resources == {"gpus": 1.0}
    path.write_text("type,cpus,memory,price_per_hour\nbig,four,8g,3.6\n")
    with pytest.raises(ConfigError, match=r"mine\.csv:2: should be as in m5\.xlarge"):
        load_prices(str(path))
    for row in ("big,4,8g,0,192", "big,4,8g"):
        path.write_text(f"type,cpus,memory,price_per_hour\n{row}\n")
        with pytest.raises(ConfigError, match=r"mine\.csv:2: should have 4 columns, as its header"):
            load_prices(str(path))
    path.write_text("type,cpus,memory,price_per_hour\nbig,4,8g,3.6\nbig,4,8g,9\n")
    with pytest.raises(ConfigError, match=r"mine\.csv:3: big: has a price in an earlier line"):
        load_prices(str(path))
    path.write_text("type,cpus\nbig,4\n")
    with pytest.raises(ConfigError, match="its columns should be type,cpus,memory,price_per_hour"):
        load_prices(str(path))
    path.write_text("type,cpus,memory,price_per_hour\n")
    with pytest.raises(ConfigError, match="should have a line for each VM type"):
        load_prices(str(path))
    with pytest.raises(ConfigError, match=r"--prices mars: no such list; known are ec2-us-east-1"):
        load_prices("mars")
    (tmp_path / "hosts.yaml").write_text(
        "{families: {m5: {memory: 8g, price_per_hour: 1}}, hosts: {'*': m6.large}}"
    )
    with pytest.raises(ConfigError, match=r"m6\.large is in neither types nor families"):
        load_prices(str(tmp_path / "hosts.yaml"))
    with pytest.raises(PriceError, match=r"--vm m9\.huge: is not in the prices"):
        load_prices("ec2-us-east-1", "m9.huge")

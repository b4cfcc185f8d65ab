"""Groups of training runs that differ only in their seeds: their members, means, bands and tables."""

from __future__ import annotations

import re

import numpy as np
import pytest
from fakes.reports import MANIFEST, check_safe, page_of, write_training

from tensorpack_lite.report.groups import average, group_trainings
from tensorpack_lite.report.page import make_page
from tensorpack_lite.report.reading import read_training
from tensorpack_lite.report.sections import table_of_groups


def write(tmp_path, name, rate=0.1, seed=1, scalars=None, **changes):
    """Write a training that its script was told to do, with `--rate`, `--seed` and `--log-dir`."""
    directory = tmp_path / "log" / name
    arguments = ["--rate", str(rate), "--seed", str(seed), "--log-dir", f"log/{name}"]
    manifest = {
        "directory": str(directory),
        "seeds": {"fix_rng_seed": seed, "graph": seed},
        **changes,
        "code": {**MANIFEST["code"], "arguments": arguments, **changes.get("code", {})},
    }
    return write_training(directory, scalars, manifest)


def groups_of(*directories):
    """Return the groups of training runs."""
    return group_trainings([read_training(directory) for directory in directories])


def members(groups):
    """Return the names of the training runs of each group."""
    return [[training.name for training in group.trainings] for group in groups.members]


def test_seeds(tmp_path):
    """Runs that differ in seed and directory are a group; a hyper-parameter that differs names the groups."""
    runs = [write(tmp_path, f"{rate}-{seed}", rate, seed) for rate in (0.1, 0.2) for seed in (1, 2)]
    groups = groups_of(*runs)
    assert [["0.1-1", "0.1-2"], ["0.2-1", "0.2-2"]] == members(groups)
    assert (["rate"], [["0.1"], ["0.2"]]) == (groups.columns, [group.values for group in groups.members])
    assert ["rate=0.1 (2 runs)", "rate=0.2 (2 runs)"] == [group.name for group in groups.members]


CHANGES = {
    "code": {"code": {"files": {"train.py": "other\n"}}},
    "data": {"data": [*MANIFEST["data"], {"type": "Mine"}]},
    "callbacks": {"callbacks": [{"type": "ModelSaver", "arguments": {"max_to_keep": 5}}]},
    "graph": {"graph": {"fingerprint": "x"}},
    "initial values": {"initial values": {"type": "SaverRestore", "arguments": {"path": "a"}}},
    "resumptions": {"resumptions": [{"changed": {"packages": {}}}]},
    "config.max_epoch": {"length": {"steps_per_epoch": 10, "max_epoch": 9}},
    "extra": {"hyperparameters": {"extra": 3}},
}


@pytest.mark.parametrize("column", CHANGES)
def test_what_else_differs(tmp_path, column):
    """No mean is taken over runs that differ in anything but seeds, and a column names the difference."""
    one, other = (write(tmp_path, f"a{seed}", seed=seed) for seed in (1, 2))
    groups = groups_of(one, other, write(tmp_path, "b", seed=3, **CHANGES[column]))
    assert [["a1", "a2"], ["b"]] == members(groups)
    assert column in groups.columns


def test_what_may_differ(tmp_path):
    """Seeds of the user, state and paths of the training, packages, machine and end do not separate runs."""
    runs = []
    for name in "abc":
        where = str(tmp_path / "log" / name)
        args = {"type": "argparse.Namespace", "arguments": {"data_seed": name, "log_dir": f"log/{name}"}}
        saver = {"type": "MaxSaver", "arguments": {"checkpoint_dir": where, "best": name}}
        changes = {
            "settings": {"model": {"type": "Net", "arguments": {"args": args}}},
            "callbacks": [saver],
            "hyperparameters": {"seed": name},
            "machine": {"host": name},
            "packages": {"python": name},
            "exit": {"outcome": "failed", "error": name},
        }
        runs.append(write(tmp_path, name, seed=ord(name), **changes))
    groups = groups_of(*runs)
    assert ([["a", "b", "c"]], [], "3 runs") == (members(groups), groups.columns, groups.members[0].name)


def test_what_is_not_described(tmp_path):
    """A part that the manifest lacks, because a limit was reached, does not separate a run, but what else differs does."""
    known = {"settings": {"model": {"type": "Net", "arguments": {"depth": 3}}}, "graph": {"fingerprint": "x"}}
    cut = {
        "settings": {"model": {"type": "Net", "arguments": {"depth": "..."}}},
        "graph": None,
        "left out": {"graph": "slow"},
    }
    other = {**cut, "data": []}
    parts = {"a": known, "b": cut, "c": known, "d": other}
    groups = groups_of(*[write(tmp_path, name, **changes) for name, changes in parts.items()])
    assert [["a", "b", "c"], ["d"]] == members(groups)


def test_nan_is_the_same_as_nan(tmp_path):
    """A NaN in a manifest, e.g. a constant that the script chose, does not separate runs."""
    values = {"hyperparameters": {"fill": float("nan")}, "schedules": [float("nan")]}
    groups = groups_of(*[write(tmp_path, name, seed=ord(name), **values) for name in "abc"])
    assert ([["a", "b", "c"]], []) == (members(groups), groups.columns)


def test_two_are_compared(tmp_path):
    """Two training runs, and those without a manifest, are not a group."""
    assert [["a"], ["b"]] == members(groups_of(write(tmp_path, "a", seed=1), write(tmp_path, "b", seed=2)))
    bare = [write_training(tmp_path / name, manifest=dict.fromkeys([*MANIFEST, "format"])) for name in "abc"]
    assert 3 == len(groups_of(*bare).members)


def test_average():
    """Mean and standard deviation are taken at common steps, of the last value at each."""
    rng = np.random.RandomState(0)
    values = rng.rand(3, 20)
    curves = [(np.arange(first, first + 20.0), row) for first, row in enumerate(values)]
    curves[0] = (np.append(curves[0][0], 19.0), np.append(values[0], 5.0))  # reported again, after a resumption
    values[0, 19] = 5.0
    steps, mean, deviation = average(curves)
    common = np.array([row[2 - first : 20 - first] for first, row in enumerate(values)])
    assert list(range(2, 20)) == steps.tolist()
    np.testing.assert_allclose(mean, common.mean(axis=0), rtol=1e-15)
    np.testing.assert_allclose(deviation, common.std(axis=0, ddof=1), rtol=1e-15)
    assert average(curves[:1]) is None
    assert average([(np.array([1.0]), np.ones(1)), (np.array([2.0]), np.ones(1))]) is None


def test_page(tmp_path):
    """A group is drawn as mean, band and single curves; a table has mean and deviation of the best values."""
    costs = [[4.0, 2.0, 1.0], [2.0, 4.0, 3.0], [3.0, 3.0, 2.0, 9.0]]
    runs = [write(tmp_path, f"s{k}", seed=k, scalars={"cost": cost}) for k, cost in enumerate(costs)]
    runs.append(write(tmp_path, "other", rate=0.5, scalars={"cost": [1.0, 0.5]}))
    page = page_of(*runs)
    mean, single = page.data["charts"][0]["curves"]
    assert ("rate=0.1 (3 runs)", [3.0, 3.0, 2.0], [1.0, 1.0, 1.0]) == (mean["label"], mean["y"], mean["deviation"])
    assert costs == [member["y"] for member in mean["members"]]
    assert ("other", 1, False) == (single["label"], single["run"], "deviation" in single)
    assert "2 \u00b1 1" in page.text
    assert "cost: rate=0.1 (3 runs) (mean of 3) from 3 to 2" in page.all("svg")[0]["aria-label"]
    assert (1, 3) == tuple(page.source.count(f'class="{kind}"') for kind in ("band", "member"))
    check_safe(page)
    band = re.search('<path d="([^"]*)" class="band">', page.source).group(1)
    assert not re.search("nan|inf", band)
    assert 6 == len(re.findall("[ML]", band))


def test_table(tmp_path):
    """The table has the number of runs that have not ended well, and the mean of the best values with n - 1."""
    ended = {"exit": {"outcome": "failed", "error": "E: e", "epoch": 1, "global_step": 10}}
    runs = [
        write(tmp_path, f"s{k}", seed=k, scalars={"val_error": [0.5, best]}, **(ended if k == 2 else {}))
        for k, best in enumerate((0.1, 0.2, 0.6))
    ]
    head, rows = table_of_groups(groups_of(*runs))
    assert ["group", "runs", "best val_error"] == head
    bests = [0.1, 0.2, 0.5]
    assert [["3 runs", "3 (1 failed)", f"{np.mean(bests):.4g} \u00b1 {np.std(bests, ddof=1):.2g}"]] == rows


def test_errors_of_many_runs(tmp_path):
    """With so many runs that their sentences are skipped, the error of one that has failed is still shown."""
    ended = {"exit": {"outcome": "failed", "error": "ValueError: wrong shape", "epoch": 1, "global_step": 10}}
    runs = [write(tmp_path, f"s{k}", seed=k, **(ended if k == 4 else {})) for k in range(9)]
    page = page_of(*runs)
    assert "s4: ValueError: wrong shape" in page.text
    assert "train.py finished" not in page.text


def test_no_common_step(tmp_path):
    """Curves without a common step are drawn one by one."""
    runs = [write(tmp_path, f"s{k}", seed=k, scalars={"cost": [1.0]}) for k in range(3)]
    trainings = [read_training(run) for run in runs]
    for number, training in enumerate(trainings):
        training.steps["cost"] = np.array([float(number)])
    page = make_page(trainings)
    assert all(f"3 runs, s{k}" in page for k in range(3))


def test_names_of_the_same_remark(tmp_path):
    """A remark that several runs have is shown once, with their names."""
    notes = [{"kind": "speed", "text": "the graph limits"}] * 2
    page = page_of(*[write_training(tmp_path / name, notes=notes) for name in "abc"])
    assert 1 == page.text.count("the graph limits")
    assert "a, b, c: the graph limits" in page.text

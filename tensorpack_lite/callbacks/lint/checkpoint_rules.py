"""Rules about the values that training starts with."""

from __future__ import annotations

from collections import Counter
from typing import Any, Iterator

from ...compat import tfv1 as tf
from ...tfutils.sessinit import ChainInit, SessionInit
from ...tfutils.varmanip import get_savename_from_varname, is_training_name
from ...utils.remarks import Remark, list_names
from .training import Training

__all__ = ["little_restored"]


def little_restored(training: Training) -> Iterator[Remark]:
    """
    G10: less than half of the variables and less than half of the checkpoint match, or their names differ by a prefix.

    Why: the rest of the model keeps its random values, and the only sign is a long warning. A model inside another variable
    scope has a prefix in its names.

    Silent if the checkpoint has everything that the model needs, or the model uses most of the checkpoint.

    Source: tensorpack issues 117, 448, 693, 967.
    """
    parts = _parts(training.session_init)
    if any(part.offered_shapes() is None for part in parts):
        return  # a class of the user
    wanted = {
        variable.op.name: variable for variable in tf.global_variables() if _is_of_model(variable.op.name)
    }
    offered: dict[str, Any] = {}
    matched: set[str] = set()
    for part in parts:
        shapes = part.offered_shapes() or {}
        saved_names = {name: get_savename_from_varname(name, varname_prefix=part.prefix) for name in wanted}
        used = {name: saved for name, saved in saved_names.items() if saved in shapes}
        matched |= set(used)
        unused = shapes.keys() - set(used.values())
        offered.update({name: shapes[name] for name in shapes if name in unused and _is_of_model(name)})
    missing = {
        name: tuple(variable.shape.as_list())
        for name, variable in wanted.items()
        if name not in matched and variable.shape.rank is not None
    }
    if missing and offered:
        yield from _describe(missing, offered, len(wanted))


def _is_of_model(name: str) -> bool:
    return not is_training_name(name) and name != "global_step"


def _parts(init: SessionInit) -> list[SessionInit]:
    if isinstance(init, ChainInit):
        return [part for one in init.inits for part in _parts(one)]
    return [init]


def _describe(missing: dict[str, Any], unused: dict[str, Any], num_wanted: int) -> Iterator[Remark]:
    """Yield at most one remark, given the variables that are not restored and the values that are not used."""
    for of_graph in (True, False):
        longer, shorter = (missing, unused) if of_graph else (unused, missing)
        prefix, count = _common_prefix(longer, shorter)
        if count < 2 or count < min(len(missing), len(unused)) / 2:
            continue
        strip = f"{prefix}/"
        if of_graph:
            here = next(name for name in missing if name.startswith(strip) and name[len(strip) :] in unused)
            there = here[len(strip) :]
        else:
            here = next(name for name in missing if strip + name in unused)
            there = strip + here
        advice = (
            f"Pass SaverRestore(path, prefix='{prefix}')."
            if of_graph
            else f"Read the values with load_checkpoint_vars(path), remove '{prefix}/' from their names, and pass the dictionary."
        )
        yield Remark(
            "G10",
            here,
            f"{count} variables are not restored, because {here} is called {there} in the file.",
            advice,
        )
        return
    total = num_wanted - len(missing)
    if len(missing) > num_wanted / 2 and len(unused) > total:
        names = f"{list_names(list(missing))} of the model, and {list_names(list(unused))} of the file"
        yield Remark(
            "G10",
            next(iter(missing)),
            f"only {total} of {num_wanted} variables are restored; these have no counterpart: {names}.",
            "If they are the same variables, rename the values: load_checkpoint_vars(path), then pass a dictionary.",
        )


def _common_prefix(longer: dict[str, Any], shorter: dict[str, Any]) -> tuple[str, int]:
    """Return the scope without which most names of one dictionary are names of the other, with the same shapes."""
    found: Counter[str] = Counter()
    for name, shape in longer.items():
        parts = name.split("/")
        for index in range(1, len(parts)):
            rest = "/".join(parts[index:])
            if rest in shorter and tuple(shorter[rest]) == tuple(shape):
                found["/".join(parts[:index])] += 1
    return found.most_common(1)[0] if found else ("", 0)

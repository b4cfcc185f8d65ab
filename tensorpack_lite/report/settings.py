"""The section with the settings of a training: the content of its manifest, without the copies of code."""

from __future__ import annotations

import os
from functools import reduce
from operator import mul
from typing import Any, Dict, Iterator, List, Tuple

from ..utils.utils import humanize_time_delta
from .html import Html, element, table
from .reading import Training
from .summary import duration

_MAX_PATCH_LINES = 200
_MAX_ROWS = 500
_MAX_CHARS = 4000
_STATE = ("rng", "queue")  # not arguments that a person gives
_WRAPPED = ("ds", "dataflow", "input", "cb", "callback", "dataflow_or_input")  # arguments that need no name


def draw_facts(training: Training) -> Html:
    """Return the most important settings, for the top of the page."""
    facts = [(name, value) for name, value in _facts(training) if value]
    pairs = [element("div", element("dt", name), element("dd", value)) for name, value in facts]
    return element("dl", *pairs, class_="facts")


def draw_settings(training: Training) -> Html:
    """Return all settings, in parts that can be opened."""
    parts = [element("details", element("summary", title), content) for title, content in _parts(training)]
    return element("div", *(parts or [element("p", "There is no manifest.", class_="empty")]))


def expression(value: Any) -> str:
    """Return a description of the manifest as code: `BatchData(Digits('train', size=8), batch_size=64)`."""
    if isinstance(value, list):
        return f"[{', '.join(map(expression, value))}]"
    if not isinstance(value, dict):
        return repr(value)
    if "type" in value:
        return f"{value['type']}({', '.join(_arguments(_dict(value.get('arguments'))))})"
    for name in ("function", "class"):
        if name in value:
            return str(value[name])
    if "array" in value:
        return f"<array {str(value['array']).rpartition(' ')[0]}>"  # without the checksum
    if "digest" in value:
        return f"<{value.get('length', value.get('bytes'))} items>"
    return "{" + ", ".join(f"{name}: {expression(item)}" for name, item in value.items()) + "}"


def _arguments(arguments: Dict[str, Any]) -> Iterator[str]:
    for name, value in arguments.items():
        if value is not None and name not in _STATE:
            yield expression(value) if name in _WRAPPED else f"{name}={expression(value)}"


def _facts(training: Training) -> Iterator[Tuple[str, str]]:
    manifest, settings, packages = training.manifest, training.part("settings"), training.part("packages")
    seconds = duration(training)
    yield "Directory", os.path.abspath(training.directory)
    yield "Started", str(manifest.get("started") or "").replace("T", " ")
    yield "Duration", "" if seconds is None else humanize_time_delta(seconds)
    yield "Model", str(_dict(settings.get("model")).get("type") or "").replace("__main__.", "")
    ranks = settings.get("ranks")
    on = f" on {ranks} ranks" if isinstance(ranks, int) and ranks > 1 else ""
    yield "Trainer", str(settings.get("trainer") or "") + on
    yield "Machine", ", ".join(_machine(training.part("machine")))
    peak = manifest.get("peak memory")
    yield "Peak memory", f"{peak / 1e6:,.0f} MB" if isinstance(peak, int) else ""
    names = [name for name in ("TensorFlow", "Python") if name.lower() in packages]
    yield "Software", ", ".join(f"{name} {packages[name.lower()]}" for name in names)
    git = _dict(training.part("code").get("git"))
    if git.get("commit"):
        changes = ", with changes" if git.get("dirty") else ""
        yield "Commit", f"{str(git['commit'])[:12]} on {git.get('branch')}{changes}"
    seed = training.part("seeds").get("fix_rng_seed")
    yield "Seed", str(seed) if seed is not None else "not fixed" if "seeds" in manifest else ""


def _machine(machine: Dict[str, Any]) -> Iterator[str]:
    if machine.get("host"):
        yield str(machine["host"])
    if isinstance(machine.get("usable cores"), (int, float)):
        yield f"{machine['usable cores']:g} cores"
    if isinstance(machine.get("memory"), int):
        yield f"{machine['memory'] / 2**30:.0f} GiB"
    gpus = [str(gpu) for gpu in _list(machine.get("GPUs"))]
    for name in sorted(set(gpus)):
        yield f"{gpus.count(name)}x {name}"


def _parts(training: Training) -> Iterator[Tuple[str, Html]]:
    manifest, part = training.manifest, training.part
    if manifest.get("data"):
        rows = [(f"input {number}", _code(flow)) for number, flow in enumerate(_list(manifest["data"]), 1)]
        files = [(path, _code(value)) for path, value in part("files").items()]
        yield "Data", table([], rows + files)
    if manifest.get("settings"):
        first_values = {"initial values": manifest.get("initial values")}
        yield "Trainer", _pairs({**part("length"), **part("settings"), **first_values})
    kinds = ("schedules", "callbacks")
    callbacks = [element("li", _code(cb)) for kind in kinds for cb in _list(manifest.get(kind))]
    if callbacks:
        yield f"Callbacks ({len(callbacks)})", element("ol", *callbacks)
    if part("graph"):
        yield _describe_graph(part("graph"))
    if part("code"):
        yield "Code", _draw_code(part("code"))
    for name in ("seeds", "machine", "environment", "packages"):
        if part(name):
            yield name.capitalize(), _pairs(part(name))
    resumptions = [_describe_resumption(_dict(place)) for place in _list(manifest.get("resumptions"))]
    if resumptions:
        head = ["when", "step", "exact", "what had changed"]
        yield f"Resumptions ({len(resumptions)})", table(head, resumptions)
    if part("left out"):
        yield "Not known", _pairs(part("left out"))


def _describe_resumption(resumption: Dict[str, Any]) -> List[Any]:
    changed = ", ".join(_dict(resumption.get("changed"))) or "nothing"
    return [
        resumption.get("when"),
        resumption.get("global_step"),
        "yes" if resumption.get("exact") else "no",
        changed,
    ]


def _describe_graph(graph: Dict[str, Any]) -> Tuple[str, Html]:
    variables = _dict(graph.get("variables"))
    num_values = 0
    rows = []
    for name, kind in list(variables.items())[:_MAX_ROWS]:
        kind = kind if isinstance(kind, list) and len(kind) >= 2 else ["?", []]
        shape = [side for side in _list(kind[1]) if isinstance(side, int)]
        is_trainable = kind[2:] == [True]
        num_values += reduce(mul, shape, 1) if is_trainable else 0
        rows.append((name, kind[0], str(shape), "yes" if is_trainable else "no"))
    title = f"Variables ({len(variables)}, {num_values:,} trainable values)"
    return title, table(["variable", "type", "shape", "trainable"], rows)


def _draw_code(code: Dict[str, Any]) -> Html:
    git, texts = _dict(code.get("git")), _dict(code.get("files"))
    files = [f"{name} ({str(text).count(chr(10)):,} lines)" for name, text in texts.items()]
    facts: Dict[str, Any] = {
        "script": code.get("script"),
        "arguments": " ".join(map(str, _list(code.get("arguments")))),
        "files": ", ".join(files),
        **{name: git[name] for name in ("commit", "branch", "dirty", "reason") if name in git},
    }
    lines = str(git.get("patch") or "").splitlines()
    more = f"\n... {len(lines) - _MAX_PATCH_LINES} more lines" if len(lines) > _MAX_PATCH_LINES else ""
    patch = "\n".join(line[:_MAX_CHARS] for line in lines[:_MAX_PATCH_LINES]) + more
    shown = [element("p", "Changes since the commit:"), element("pre", patch)] if lines else []
    return element("div", _pairs(facts), *shown)


def _pairs(values: Dict[str, Any]) -> Html:
    rows = [
        (name, value if isinstance(value, str) else _code(value))
        for name, value in values.items()
        if value not in (None, "", [], {})
    ]
    return table([], rows[:_MAX_ROWS])


def _code(value: Any) -> Html:
    text = expression(value)
    return element("code", text if len(text) <= _MAX_CHARS else f"{text[:_MAX_CHARS]}...")


def _dict(value: Any) -> Dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> List[Any]:
    return value if isinstance(value, list) else []

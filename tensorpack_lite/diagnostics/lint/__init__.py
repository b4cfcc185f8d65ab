"""
Lint: rules that find common mistakes in the graph, the callbacks and the data of a training.

**In:** a trainer whose callbacks are set up.
**Out:** remarks, in the log and in `notes.jsonl`.
**Next:** `train/defaults.py`, which adds the extension `Lint` to each training.

Start reading at `rules.py`. docs/lint.md has a table of the rules.
"""

from __future__ import annotations

from .lint import Lint, lint_training
from .rules import GRAPH_RULES, RULE_IDS

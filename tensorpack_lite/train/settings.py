"""The settings of the default extensions, which are attributes of trainers."""

from __future__ import annotations

from typing import Sequence

__all__ = ["ExtensionSettings"]


class ExtensionSettings:
    """
    Base class of `Trainer` with the settings of its default extensions. Set them before training.

    Attributes:
        lint: whether common mistakes in the graph, the callbacks and the data are logged ("warn"), end training before its
            first step ("error"), or are not looked for ("off"); "deep" is "warn" with 200 steps on one batch, after which
            variables are put back. See docs/lint.md.
        lint_ignore: ids of rules that lint leaves out.
        on_hang: what to do when training hangs, "report" or "abort"; see TrainConfig.
        rehearse: whether the script is rehearsed before it trains; see TrainConfig.
        end_within: with `exact`, the seconds in which a training saves a checkpoint and ends after SIGTERM or
            SIGUSR1; 20 by default. When they are over, the process ends without a new checkpoint.
        not_exact: why trainings of this class cannot be resumed exactly; empty if they can.
    """

    lint = "warn"
    lint_ignore: Sequence[str] = ()
    on_hang = "report"
    rehearse = False
    end_within = 20.0
    not_exact = ""

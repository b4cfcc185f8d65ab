"""All rules about the graph and the callbacks, in the order in which they are applied."""

from __future__ import annotations

from typing import Callable, Iterator

from ...utils.remarks import Remark
from .callback_rules import length_of_epoch, order_of_savers, parameter_without_effect
from .model_rules import (
    cost_without_inputs,
    probabilities_as_logits,
    regularization_of_nothing,
    sum_over_the_batch,
    variable_without_gradient,
    wrong_dtypes,
)
from .training import Training
from .variable_rules import (
    averages_without_update,
    little_restored,
    random_state_not_saved,
    training_mode_in_inference,
    updates_that_do_not_run,
    variable_of_another_tower,
)

__all__ = ["GRAPH_RULES", "RULE_IDS"]

Rule = Callable[[Training], Iterator[Remark]]

GRAPH_RULES: list[Rule] = [
    variable_without_gradient,
    cost_without_inputs,
    probabilities_as_logits,
    parameter_without_effect,
    updates_that_do_not_run,
    averages_without_update,
    training_mode_in_inference,
    wrong_dtypes,
    regularization_of_nothing,
    little_restored,
    sum_over_the_batch,
    variable_of_another_tower,
    random_state_not_saved,
    order_of_savers,
    length_of_epoch,
]

RULE_IDS = (
    *("G01", "G02", "G03", "G04", "G05", "G06", "G08", "G09", "G10", "G11", "G12", "G13", "G14", "G15"),
    *("D01", "D02", "D03", "D04", "T01", "T02"),
)

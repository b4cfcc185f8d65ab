"""All rules about the graph and the callbacks, in the order in which they are applied."""

from __future__ import annotations

from typing import Callable, Iterator

from ..data_check.remarks import Remark
from . import (
    callback_rules,
    computed_rates,
    cost_rules,
    epoch_rules,
    method_rules,
    model_rules,
    precision_rules,
    rate_rules,
    schedule_rules,
    statistic_rules,
    validation_rules,
    variable_rules,
)
from .training import ExaminedTraining

Rule = Callable[[ExaminedTraining], Iterator[Remark]]

GRAPH_RULES: list[Rule] = [
    model_rules.variable_without_gradient,
    model_rules.cost_without_inputs,
    model_rules.probabilities_as_logits,
    callback_rules.parameter_without_effect,
    variable_rules.updates_that_do_not_run,
    variable_rules.averages_without_update,
    variable_rules.training_mode_in_inference,
    model_rules.wrong_dtypes,
    model_rules.regularization_of_nothing,
    precision_rules.products_in_float32,
    precision_rules.costs_in_16_bits,
    variable_rules.little_restored,
    model_rules.sum_over_the_batch,
    variable_rules.variable_of_another_tower,
    variable_rules.random_state_not_saved,
    variable_rules.results_that_differ,
    callback_rules.order_of_savers,
    callback_rules.length_of_epoch,
    validation_rules.samples_left_out,
    validation_rules.repeated_samples,
    method_rules.method_that_nothing_calls,
    callback_rules.no_checkpoint_to_resume,
    schedule_rules.schedule_of_another_length,
    computed_rates.computed_rate_of_another_length,
    schedule_rules.two_schedules_of_one_parameter,
    rate_rules.rate_of_zero,
    cost_rules.crossed_shapes,
    cost_rules.unused_regularization,
    cost_rules.input_without_use,
    cost_rules.wrapper_without_use,
    statistic_rules.statistic_with_wrong_name,
    epoch_rules.negated_cross_entropy,
]

RULE_IDS = (
    *(f"G{number:02}" for number in range(1, 31) if number not in (7, 20)),
    *("D01", "D02", "D03", "D04", "T01", "T02", "T03", "T04"),
)

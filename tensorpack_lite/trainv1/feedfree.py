"""Base classes from which scripts of 2017 derive trainers for GANs."""

from __future__ import annotations

from ..compat import tfv1 as tf
from ..tfutils.gradproc import GradVars
from ..tfutils.tower.context import TowerContext
from .trainers import SimpleTrainer, Trainer


class FeedfreeTrainerBase(Trainer):
    """
    Base class of trainers whose `_setup` builds the graph from `self._input_source`.

    Example:
        >>> class GANTrainer(FeedfreeTrainerBase):
        ...     def _setup(self):
        ...         super()._setup()
        ...         self.build_train_tower()
        ...         self.train_op = self.model.get_optimizer().minimize(self.model.d_loss)
    """

    def _setup(self) -> None:
        """Set up the input source. Subclasses extend this method."""
        if self._input_source is None:
            raise ValueError(f"{type(self).__name__}: the config has no data. Pass dataflow=... or data=...")
        self.register_callback(self._input_source.setup(self.model.get_input_signature()))

    def build_train_tower(self) -> None:
        """Build the model in a training tower without a name."""
        source = self._input_source
        with TowerContext("", is_training=True):
            self.model.build_graph(*(source.get_input_tensors() if source is not None else []))


class SingleCostFeedfreeTrainer(FeedfreeTrainerBase):
    """Base class of trainers that minimize `self.model.get_cost()`."""

    def _get_cost_and_grad(self) -> tuple[tf.Tensor, GradVars]:
        """Build the training tower and return its cost and its list of (gradient, variable)."""
        self.build_train_tower()
        cost = self.model.get_cost()
        return cost, self.model.get_optimizer().compute_gradients(cost, colocate_gradients_with_ops=True)


FeedfreeTrainer = SimpleTrainer

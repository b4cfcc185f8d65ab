"""
Train a single variable, and print what each package of the library does with it.

Shows: the packages in the order in which a datapoint passes through them.
Expect: each step moves w half of the way to 3: 1.5, 2.25, 2.625, 2.8125. Takes two seconds.
"""

from __future__ import annotations

import argparse
import logging

from tensorpack_lite import *
from tensorpack_lite import tfv1 as tf


def say(package: str, text: str) -> None:
    print(f"{package:<14}{text}")


def make_data() -> DataFlow:
    """Package dataflow: datapoints are lists of components. Here a batch of two numbers repeats forever."""
    return RepeatedData(BatchData(DataFromList([[2.0], [4.0]], shuffle=False), 2), -1)


class Model(ModelDesc):
    """Packages input_source, tfutils and graph_builder: inputs, model and gradients."""

    def inputs(self):
        return [tf.TensorSpec([2], tf.float32, "x")]

    def build_graph(self, x):
        w = tf.get_variable("w", initializer=0.0)
        if get_current_tower_context().is_training:
            say("input_source", f"the batch is now the tensor {x.op.name}, shape {x.shape.as_list()}")
            say("tfutils", f"the model is built from it for training; its only variable is {w.op.name}")
        else:
            say("tfutils", "the model is built again for prediction, with the same variable")
        return tf.reduce_mean(tf.square(x - w) / 2, name="cost")

    def optimizer(self):
        def report(grad, var):
            say("graph_builder", f"the cost has a gradient for {var.op.name}, shape {grad.shape.as_list()}")
            return grad

        return optimizer.apply_grad_processors(tf.train.GradientDescentOptimizer(0.5), [gradproc.MapGradient(report)])


class PrintMoments(Callback):
    """Packages train, callbacks and predict: the trainer calls a callback at fixed moments of training."""

    def _before_train(self):
        say("train", f"the trainer has one operation to run: {self.trainer.train_op.name}")

    def _setup_graph(self):
        self.fetches = self.get_tensors_maybe_in_tower(["cost"])
        self.predictor = self.trainer.get_predictor(["x"], ["cost"])

    def _before_run(self, ctx):
        return self.fetches  # evaluated in the same run as the training operation

    def _after_run(self, ctx, run_values):
        (cost,) = run_values.results
        say("train", f"step {self.global_step}: the training operation ran once; the cost was {cost:g}")

    def _trigger_epoch(self):
        w = self.trainer.sess.run(self.trainer.find_tensor("w"))
        self.trainer.monitors.put_scalar("w", w)
        say("callbacks", f"epoch {self.epoch_num} is over, w = {w:g}")

    def _after_train(self):
        cost = self.predictor([2.8125, 2.8125])[0]
        say("predict", f"without the loop, the model computes a cost of {cost:g} for two numbers equal to w")


class PrintMonitor(MonitorBase):
    """Package monitor: each monitor receives all values that callbacks report."""

    def process_scalar(self, name, val):
        say("callbacks", f"{name} = {val:g}")


def main(argv=None) -> None:
    formatter = argparse.RawDescriptionHelpFormatter
    argparse.ArgumentParser(description=__doc__, formatter_class=formatter).parse_args(argv)
    logger.setLevel(logging.ERROR)
    data = make_data()
    data.reset_state()
    say("dataflow", f"a datapoint: {next(iter(data))[0].tolist()}")

    config = TrainConfig(
        model=Model(),
        data=FeedInput(data),
        callbacks=[PrintMoments()],
        extra_callbacks=[],
        monitors=[PrintMonitor()],
        steps_per_epoch=2,
        max_epoch=2,
    )
    launch_train_with_config(config, SimpleTrainer())


if __name__ == "__main__":
    main()

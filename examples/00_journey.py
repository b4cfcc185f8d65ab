"""
One variable on its way through the whole library, one printed line at each station.

Shows: what each package does, in the order in which a datapoint meets them.
Expect: w goes from 0 halfway to 3 at each step: 1.5, 2.25, 2.625, 2.8125. Takes two seconds.
"""

from __future__ import annotations

import argparse
import logging

from tensorpack_lite import *
from tensorpack_lite import tfv1 as tf


def say(station: str, text: str) -> None:
    print(f"{station:<14}{text}")


def make_data() -> DataFlow:
    """Station 1, dataflow: datapoints are lists of components; here one batch of two numbers, again and again."""
    return RepeatedData(BatchData(DataFromList([[2.0], [4.0]], shuffle=False), 2), -1)


class Model(ModelDesc):
    """Stations 2 to 4: what enters the graph, the tower function, what becomes of its gradients."""

    def inputs(self):
        return [tf.TensorSpec([2], tf.float32, "x")]

    def build_graph(self, x):
        w = tf.get_variable("w", initializer=0.0)
        if get_current_tower_context().is_training:
            say("input_source", f"the batch is now the tensor {x.op.name}, shape {x.shape.as_list()}")
            say("tower", f"the model is built from it, for training; its only variable is {w.op.name}")
        else:
            say("tower", "the model is built once more, for prediction; its variable is there already")
        return tf.reduce_mean(tf.square(x - w) / 2, name="cost")

    def optimizer(self):
        def look(grad, var):
            say("graph_builder", f"the cost has a gradient for {var.op.name}, shape {grad.shape.as_list()}")
            return grad

        return optimizer.apply_grad_processors(
            tf.train.GradientDescentOptimizer(0.5), [gradproc.MapGradient(look)]
        )


class Watch(Callback):
    """Station 6, loop: a callback is called at fixed moments of training."""

    def _before_train(self):
        say("train", f"the trainer has one operation to run: {self.trainer.train_op.name}")

    def _setup_graph(self):
        self.fetches = self.get_tensors_maybe_in_tower(["cost"])
        self.predictor = self.trainer.get_predictor(["x"], ["cost"])

    def _before_run(self, _):
        return self.fetches

    def _after_run(self, _, values):
        say(
            "loop",
            f"step {self.global_step}: the training operation ran once; the cost was {values.results[0]:g}",
        )

    def _trigger_epoch(self):
        w = self.trainer.sess.run(self.trainer.find_tensor("w"))
        self.trainer.monitors.put_scalar("w", w)
        say("callbacks", f"epoch {self.epoch_num} is over, w = {w:g}")

    def _after_train(self):
        cost = self.predictor([2.8125, 2.8125])[0]
        say("predict", f"the model without the loop, for two numbers equal to w: the cost is {cost:g}")


class Say(MonitorBase):
    """Station 8, monitors: whatever is reported, by whomever, arrives at each of them."""

    def process_scalar(self, name, val):
        say("monitors", f"{name} = {val:g}")


def main(argv=None) -> None:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter).parse_args(
        argv
    )
    logger.setLevel(logging.ERROR)
    data = make_data()
    data.reset_state()
    say("dataflow", f"a datapoint: {next(iter(data))[0].tolist()}")

    config = TrainConfig(
        model=Model(),
        data=FeedInput(data),
        callbacks=[Watch()],
        extra_callbacks=[],
        monitors=[Say()],
        steps_per_epoch=2,
        max_epoch=2,
    )
    launch_train_with_config(config, SimpleTrainer())


if __name__ == "__main__":
    main()

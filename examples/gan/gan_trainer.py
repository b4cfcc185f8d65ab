"""
Trainers for two networks with separate losses, built on the public API of the library.

Shows: a tower function with two losses, variables selected by their scope, `train_op` and `run_step`, several GPUs.
Expect: this is a module for the other examples; run one of those. docs/gan.md explains it step by step.
"""

from __future__ import annotations

from tensorpack_lite import *
from tensorpack_lite import tfv1 as tf
from tensorpack_lite.graph_builder import DataParallelBuilder, LeastLoadedDeviceSetter
from tensorpack_lite.tfutils.summary import add_moving_summary
from tensorpack_lite.tfutils.tower import TowerFunc


class GANModelDesc(ModelDescBase):
    """
    Base class of GAN models. `build_graph` returns the scalars `(d_loss, g_loss)`.

    The generator must create its variables in the scope `gen`, the discriminator in `discrim`.
    """

    g_scope, d_scope = "gen", "discrim"

    def optimizers(self):
        """Return the optimizers of the discriminator and the generator."""
        raise NotImplementedError(f"{type(self).__name__}: does not define optimizers(), which returns two optimizers.")

    def get_gan_var_list(self) -> tuple:
        """Return the trainable variables of the discriminator, and those of the generator."""
        scopes = [self.d_scope, self.g_scope]
        lists = [tf.get_collection(tf.GraphKeys.TRAINABLE_VARIABLES, scope + "/") for scope in scopes]
        for scope, variables in zip(scopes, lists):
            if not variables:
                raise ValueError(f"{type(self).__name__}: there is no trainable variable in the scope '{scope}'.")
        known = {v.name for variables in lists for v in variables}
        others = [v.name for v in tf.trainable_variables() if v.name not in known]
        if others:
            raise ValueError(
                f"{type(self).__name__}: these variables are not in the scopes {scopes}: {', '.join(others)}."
            )
        return tuple(lists)


def build_gan_losses(real, fake) -> tuple:
    """Return the classic `(d_loss, g_loss)` for the scores (logits) [N, 1] of real and generated images."""
    cross_entropy = tf.nn.sigmoid_cross_entropy_with_logits
    d_loss_real = tf.reduce_mean(cross_entropy(logits=real, labels=tf.ones_like(real)), name="d_loss_real")
    d_loss_fake = tf.reduce_mean(cross_entropy(logits=fake, labels=tf.zeros_like(fake)), name="d_loss_fake")
    d_loss = tf.multiply(0.5, d_loss_real + d_loss_fake, name="d_loss")
    g_loss = tf.reduce_mean(cross_entropy(logits=fake, labels=tf.ones_like(fake)), name="g_loss")
    real_accuracy = tf.reduce_mean(tf.cast(real > 0, tf.float32), name="accuracy_real")
    fake_accuracy = tf.reduce_mean(tf.cast(fake < 0, tf.float32), name="accuracy_fake")
    add_moving_summary(d_loss, g_loss, real_accuracy, fake_accuracy)
    return d_loss, g_loss


def compute_gradients(optimizer, loss, variables) -> list:
    """Return the pairs `(gradient, variable)` of one network's loss for its variables."""
    pairs = optimizer.compute_gradients(loss, var_list=variables, colocate_gradients_with_ops=True)
    unused = [v.name for grad, v in pairs if grad is None]
    if unused:
        raise ValueError(f"{loss.op.name} does not depend on {', '.join(unused)}.")
    return pairs


class GANTrainer(TowerTrainer):
    """Update both networks with one batch per step. Both gradients are computed before the first update."""

    def __init__(self, input: InputSource, model: GANModelDesc) -> None:
        super().__init__()
        signature = model.get_input_signature()
        self.register_callback(input.setup(signature))
        self.tower_func = TowerFunc(model.build_graph, signature)
        d_loss, g_loss = self.build_losses(input)
        d_optimizer, g_optimizer = model.optimizers()
        d_variables, g_variables = model.get_gan_var_list()
        d_gradients = compute_gradients(d_optimizer, d_loss, d_variables)
        g_gradients = compute_gradients(g_optimizer, g_loss, g_variables)
        self.build_train_ops((d_optimizer, d_gradients), (g_optimizer, g_gradients))

    def build_losses(self, input: InputSource) -> tuple:
        """Build the model; return `(d_loss, g_loss)`."""
        with TowerContext("", is_training=True):
            return self.tower_func(*input.get_input_tensors())

    def build_train_ops(self, d_update: tuple, g_update: tuple) -> None:
        """Build `train_op` from (optimizer, gradients) of both networks."""
        (d_optimizer, d_grads), (g_optimizer, g_grads) = d_update, g_update
        gradients = [grad for grad, _ in [*d_grads, *g_grads]]
        with tf.control_dependencies(gradients):
            d_op = d_optimizer.apply_gradients(d_grads)
            g_op = g_optimizer.apply_gradients(g_grads)
        self.train_op = tf.group(d_op, g_op, name="train_op")


class SeparateGANTrainer(GANTrainer):
    """
    Update the networks one after the other, with separate batches.

    The discriminator is updated in every `d_period`-th step, the generator in every `g_period`-th. The first step updates
    both. `global_step` counts updates.
    """

    def __init__(self, input: InputSource, model: GANModelDesc, d_period: int = 1, g_period: int = 1) -> None:
        if min(d_period, g_period) != 1:
            raise ValueError(f"SeparateGANTrainer: d_period or g_period must be 1 (got {d_period} and {g_period}).")
        super().__init__(input, model)
        self.d_period, self.g_period = d_period, g_period
        self.num_steps = 0

    def build_train_ops(self, d_update: tuple, g_update: tuple) -> None:
        (d_optimizer, d_grads), (g_optimizer, g_grads) = d_update, g_update
        self.d_op = d_optimizer.apply_gradients(d_grads, name="d_op")
        self.g_op = g_optimizer.apply_gradients(g_grads, name="g_op")
        self.step_ops = [self.d_op, self.g_op]

    def run_step(self) -> None:
        if self.num_steps % self.d_period == 0:
            self.hooked_sess.run(self.d_op)
        if self.num_steps % self.g_period == 0:
            self.hooked_sess.run(self.g_op)
        self.num_steps += 1


class MultiGPUGANTrainer(GANTrainer):
    """A GANTrainer with one tower per GPU. Towers have separate batches and share variables; losses are averaged."""

    def __init__(self, num_gpu: int, input: InputSource, model: GANModelDesc) -> None:
        self.num_gpu = num_gpu
        super().__init__(StagingInput(input) if num_gpu > 1 else input, model)

    def build_losses(self, input: InputSource) -> tuple:
        devices = [f"/gpu:{k}" for k in range(self.num_gpu)]
        losses = DataParallelBuilder.call_for_each_tower(
            list(range(self.num_gpu)),
            lambda: self.tower_func(*input.get_input_tensors()),
            [LeastLoadedDeviceSetter(device, devices) for device in devices],
        )
        d_losses, g_losses = zip(*losses)  # those of all towers
        return tf.add_n(list(d_losses)) / self.num_gpu, tf.add_n(list(g_losses)) / self.num_gpu

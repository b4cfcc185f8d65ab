"""
Trainers for two players with a loss each, written as a user of the library would: with nothing but its public interface.

Shows: a tower function with two losses, variables told apart by their scope, `train_op` and `run_step`, several devices.
Expect: a module for the other examples of this folder; run one of those. docs/gan.md explains it piece by piece.
"""

from __future__ import annotations

from tensorpack_lite import *
from tensorpack_lite import tfv1 as tf
from tensorpack_lite.graph_builder import DataParallelBuilder, LeastLoadedDeviceSetter
from tensorpack_lite.tfutils.summary import add_moving_summary
from tensorpack_lite.tfutils.tower import TowerFunc


class GANModelDesc(ModelDescBase):
    """
    A generator against a discriminator: `build_graph` returns `(d_loss, g_loss)`, two scalars.

    The generator creates its variables in the scope `gen`, the discriminator in `discrim`.
    """

    g_scope, d_scope = "gen", "discrim"

    def optimizers(self):
        """Make two optimizers, the discriminator's and the generator's."""
        raise NotImplementedError(f"{type(self).__name__}: define optimizers(), which returns a pair.")

    def get_gan_var_list(self) -> tuple:
        """The trained variables of the discriminator and those of the generator, told apart by their scope."""
        scopes = [self.d_scope, self.g_scope]
        lists = [tf.get_collection(tf.GraphKeys.TRAINABLE_VARIABLES, scope + "/") for scope in scopes]
        for scope, variables in zip(scopes, lists):
            if not variables:
                raise ValueError(f"{type(self).__name__}: no variable is trained in scope '{scope}'.")
        of_players = {v.name for variables in lists for v in variables}
        others = [v.name for v in tf.trainable_variables() if v.name not in of_players]
        if others:
            raise ValueError(f"{type(self).__name__}: in neither of {scopes}: {', '.join(others)}.")
        return tuple(lists)


def build_gan_losses(real, fake) -> tuple:
    """The classic losses of the scores (logits) [N, 1] of real and generated images: `(d_loss, g_loss)`."""
    cross_entropy = tf.nn.sigmoid_cross_entropy_with_logits
    told_real = tf.reduce_mean(cross_entropy(logits=real, labels=tf.ones_like(real)), name="d_loss_real")
    told_fake = tf.reduce_mean(cross_entropy(logits=fake, labels=tf.zeros_like(fake)), name="d_loss_fake")
    d_loss = tf.multiply(0.5, told_real + told_fake, name="d_loss")
    g_loss = tf.reduce_mean(cross_entropy(logits=fake, labels=tf.ones_like(fake)), name="g_loss")
    real_accuracy = tf.reduce_mean(tf.cast(real > 0, tf.float32), name="accuracy_real")
    fake_accuracy = tf.reduce_mean(tf.cast(fake < 0, tf.float32), name="accuracy_fake")
    add_moving_summary(d_loss, g_loss, real_accuracy, fake_accuracy)
    return d_loss, g_loss


def compute_gradients(optimizer, loss, variables) -> list:
    """The pairs `(gradient, variable)` of one player: of its own loss, for its own variables only."""
    pairs = optimizer.compute_gradients(loss, var_list=variables, colocate_gradients_with_ops=True)
    unused = [v.name for grad, v in pairs if grad is None]
    if unused:
        raise ValueError(f"{loss.op.name} does not depend on {', '.join(unused)}.")
    return pairs


class GANTrainer(TowerTrainer):
    """A step moves both players with one batch. Neither sees the other's move: both gradients come first."""

    def __init__(self, input: InputSource, model: GANModelDesc) -> None:
        super().__init__()
        signature = model.get_input_signature()
        self.register_callback(input.setup(signature))
        self.tower_func = TowerFunc(model.build_graph, signature)
        losses = self.build_losses(input)
        players = zip(model.optimizers(), losses, model.get_gan_var_list())
        self.build_train_ops(*[(player[0], compute_gradients(*player)) for player in players])

    def build_losses(self, input: InputSource) -> tuple:
        """Build what is trained; gives `(d_loss, g_loss)`."""
        with TowerContext("", is_training=True):
            return self.tower_func(*input.get_input_tensors())

    def build_train_ops(self, d_update: tuple, g_update: tuple) -> None:
        """Build `train_op` from an optimizer and its gradients, for each player."""
        with tf.control_dependencies([grad for _, grads in (d_update, g_update) for grad, _ in grads]):
            moves = [optimizer.apply_gradients(grads) for optimizer, grads in (d_update, g_update)]
        self.train_op = tf.group(*moves, name="train_op")


class SeparateGANTrainer(GANTrainer):
    """
    Players move in turns, each with a batch of its own: the discriminator every `d_period` steps, then the generator every
    `g_period` steps. The first step moves both. `global_step` counts moves.
    """

    def __init__(self, input: InputSource, model: GANModelDesc, d_period: int = 1, g_period: int = 1) -> None:
        if min(d_period, g_period) != 1:
            raise ValueError(f"d_period is {d_period}, g_period is {g_period}: one of them must be 1.")
        super().__init__(input, model)
        self.d_period, self.g_period = d_period, g_period
        self.num_steps = 0

    def build_train_ops(self, d_update: tuple, g_update: tuple) -> None:
        (d_optimizer, d_grads), (g_optimizer, g_grads) = d_update, g_update
        self.d_op = d_optimizer.apply_gradients(d_grads, name="d_op")
        self.g_op = g_optimizer.apply_gradients(g_grads, name="g_op")

    def run_step(self) -> None:
        if self.num_steps % self.d_period == 0:
            self.hooked_sess.run(self.d_op)
        if self.num_steps % self.g_period == 0:
            self.hooked_sess.run(self.g_op)
        self.num_steps += 1


class MultiGPUGANTrainer(GANTrainer):
    """A GANTrainer with a tower on each GPU: each has a batch of its own, all share the variables; losses are averaged."""

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
        return tuple(tf.add_n(list(of_towers)) / self.num_gpu for of_towers in zip(*losses))

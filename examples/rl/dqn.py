"""
A deep Q-network that balances a pole, or plays an Atari game: double, dueling, with returns of several steps.

Shows: a replay memory as a DataFlow, a callback that fills it with a predictor, a target network that is copied sometimes.
Expect: a mean score above 450 of 500 in 20 games of CartPole. See README.md for times, and for Pong.

    python examples/rl/dqn.py                           CartPole-v1; `pip install ".[tf,examples]"` installs gymnasium
    python examples/rl/dqn.py --env ALE/Pong-v5         an Atari game, by ale-py, which needs Python 3.9
    python examples/rl/dqn.py --play                    write a game with the last checkpoint to train_log/dqn/game.gif
    python examples/rl/dqn.py --resume                  continue the last run; its replay memory is not saved

Source: Mnih et al. 2015, "Human-level control through deep reinforcement learning"; van Hasselt et al. 2016, "Deep
reinforcement learning with double Q-learning"; Wang et al. 2016, "Dueling network architectures".
"""

from __future__ import annotations

from game_model import GameModel, features
from game_training import get_args, train_or_play
from replay_memory import ReplayMemory
from rl_games import Game

from tensorpack_lite import *
from tensorpack_lite import tfv1 as tf
from tensorpack_lite.tfutils.scope_utils import auto_reuse_variable_scope
from tensorpack_lite.tfutils.summary import add_moving_summary

DISCOUNT = 0.99
SMALL = {  # settings for all games but Atari's
    "memory": 50000,  # rows
    "warmup": 1000,  # actions before the first update
    "actions_per_update": 4,
    "copy_period": 100,  # updates between copies to the target network
    "exploration": 4000,  # updates until `random_actions` is reached
    "random_actions": 0.05,  # part of all actions
    "batch": 64,
    "num_steps": 10,  # rewards in a return
    "learning_rate": 1e-3,
    "steps_per_epoch": 1000,
    "max_epoch": 20,
    "eval_games": 20,
}
ATARI = {
    "memory": 100000,
    "warmup": 10000,
    "actions_per_update": 4,
    "copy_period": 500,
    "exploration": 15000,
    "random_actions": 0.02,
    "batch": 32,
    "num_steps": 3,
    "learning_rate": 2.5e-4,
    "steps_per_epoch": 5000,
    "max_epoch": 20,
    "eval_games": 4,
}


class Explore(Callback):
    """Play a game with the current network and some random actions, and store its steps in the memory."""

    def __init__(self, memory: ReplayMemory, game: Game, args) -> None:
        self.memory = memory
        self.game = game
        self.args = args

    def _setup_graph(self) -> None:
        self.predictor = self.trainer.get_predictor(["state"], ["scores"])
        self.rng = get_rng(self)

    def _before_train(self) -> None:
        self._play(self.args.warmup)

    def _trigger_step(self) -> None:
        self._play(self.args.actions_per_update)

    def _play(self, num_actions: int) -> None:
        game = self.game
        for _ in range(num_actions):
            action = self._choose_action()
            # read before the action, which changes them
            frame = game.state[-1]
            last = game.last
            terminal = game.terminal
            reward = game.step(action)
            self.memory.add(frame, action, reward, last, terminal)

    def _choose_action(self) -> int:
        """Return a random action with a probability that falls from 1 to `random_actions`, otherwise the network's."""
        random_actions = max(self.args.random_actions, 1 - self.global_step / self.args.exploration)
        random_action = self.rng.randint(self.game.num_actions)
        if self.rng.rand() < random_actions:
            return random_action
        (scores,) = self.predictor(self.game.state[None])  # [1, A]
        return int(scores.argmax())


@auto_reuse_variable_scope
def q_values(state: tf.Tensor, num_actions: int) -> tf.Tensor:
    """Return the values [N, A] of the actions: the value of the state, plus the advantages, whose mean is 0."""
    hidden = features(state)
    advantage = FullyConnected("advantage", hidden, num_actions)  # [N, A]
    value = FullyConnected("value", hidden, 1)  # [N, 1]
    return value + advantage - tf.reduce_mean(advantage, axis=1, keepdims=True)


def double_q_target(returns, discount, online, target) -> tf.Tensor:
    """
    Return the targets [N]. The online network chooses the next action, the target network evaluates it.

    Args:
        returns: sums of the next rewards [N].
        discount: the weight of what follows [N]; 0 at the end of a game.
        online: values of the actions in the next state [N, A], by the online network.
        target: the same, by the target network.
    """
    best = tf.argmax(online, axis=1)  # [N]
    is_best = tf.one_hot(best, tf.shape(online)[1])  # [N, A]
    next_value = tf.reduce_sum(is_best * target, axis=1)  # [N]
    return returns + discount * next_value


def copy_to_target() -> tf.Operation:
    """Return the operation that copies the online network to the target network."""
    online_variables = tf.trainable_variables("online/")
    target_variables = tf.model_variables("target/")  # where freeze_variables has put them; in the same order
    pairs = zip(target_variables, online_variables)
    return tf.group(*[tf.assign(target, online) for target, online in pairs])


class Model(GameModel):
    """A Q-network, and a target network without gradients."""

    def inputs(self):
        return [
            self.state_spec("state"),
            tf.TensorSpec([None], tf.int32, "action"),
            tf.TensorSpec([None], tf.float32, "return"),  # of the next `num_steps` rewards
            tf.TensorSpec([None], tf.float32, "discount"),  # of what follows them
            self.state_spec("next_state"),  # after these rewards
        ]

    def build_graph(self, state, action, returns, discount, next_state):
        num_actions = self.game.num_actions
        with tf.variable_scope("online"):
            scores = q_values(state, num_actions)
            next_online = q_values(next_state, num_actions)
        # skip_collection: the optimizer does not see these variables, which are model variables instead of trainable ones
        with tf.variable_scope("target"), varreplace.freeze_variables(skip_collection=True):
            next_target = q_values(next_state, num_actions)
        scores = tf.identity(scores, name="scores")  # [N, A], for the predictors
        chosen = tf.reduce_sum(scores * tf.one_hot(action, num_actions), axis=1)  # [N]
        target = double_q_target(returns, discount, next_online, next_target)  # [N]
        cost = tf.losses.huber_loss(tf.stop_gradient(target), chosen)
        cost = tf.identity(cost, name="cost")
        mean_value = tf.reduce_mean(chosen, name="mean_value")
        add_moving_summary(cost, mean_value)
        return cost


def main(argv=None) -> None:
    args = get_args(__doc__, "dqn", SMALL, ATARI, argv)
    game = Game(args.env, args.seed, is_training=True)
    memory = ReplayMemory(args.memory, args.batch, args.num_steps, DISCOUNT, game.shape, game.dtype)
    explore = Explore(memory, game, args)
    update_target = PeriodicTrigger(RunOp(copy_to_target), every_k_steps=args.copy_period)  # also once before training
    train_or_play(args, Model(args, game), memory, [explore, update_target], args.actions_per_update)


if __name__ == "__main__":
    main()

"""
Advantage actor-critic: games run in worker processes, and one network in the main process chooses the actions for all.

Shows: worker processes that receive answers: a DataFlow with a pipe in a MultiProcessRunnerZMQ; a predictor for batches of
states; data that depends on the network.
Expect: a mean score above 450 of 500 in 20 games of CartPole. See README.md for times, and for Pong.

    python examples/rl/a2c.py                           CartPole-v1; `pip install ".[tf,examples]"` installs gymnasium
    python examples/rl/a2c.py --env ALE/Pong-v5         an Atari game, by ale-py, which needs Python 3.9
    python examples/rl/a2c.py --play                    write a game with the last checkpoint to train_log/a2c/game.gif
    python examples/rl/a2c.py --resume                  continue the last run, with new games

Source: Mnih et al. 2016, "Asynchronous methods for deep reinforcement learning"; Babaeizadeh et al. 2017, "Reinforcement
learning through asynchronous advantage actor-critic on a GPU"; Schulman et al. 2016, "High-dimensional continuous control
using generalized advantage estimation".
"""

from __future__ import annotations

import multiprocessing

import numpy as np
from game_model import GameModel, features
from game_training import get_args, train_or_play
from rl_games import Game

from tensorpack_lite import *
from tensorpack_lite import tfv1 as tf
from tensorpack_lite.tfutils.summary import add_moving_summary

DISCOUNT = 0.99
LAMBDA = 0.95  # of the generalized advantage estimation; 1 means returns that are as long as possible
SMALL = {  # settings for all games but Atari's
    "workers": 2,
    "games_per_worker": 8,
    "length": 8,  # actions of each game in a batch
    "learning_rate": 1e-3,
    "entropy_weight": 1e-3,
    "steps_per_epoch": 300,
    "max_epoch": 20,
    "eval_games": 20,
}
ATARI = {**SMALL, "entropy_weight": 0.01, "steps_per_epoch": 1000, "max_epoch": 18, "eval_games": 4}


class Simulator(DataFlow):
    """
    G games in a worker process: [state [G, ...], reward [G], last [G], terminal [G]]. Each datapoint awaits actions [G].

    `last` and `terminal` are those of Game; the rewards are those of the previous actions.
    """

    def __init__(self, name: str, seeds: np.ndarray) -> None:
        self.name = name
        self.seeds = seeds
        self.actions, self.sender = multiprocessing.Pipe(duplex=False)

    def __iter__(self):
        games = [Game(self.name, int(seed), is_training=True) for seed in self.seeds]
        rewards = [0.0] * len(games)
        while True:
            states = np.stack([game.state for game in games])
            last = np.array([game.last for game in games])
            terminal = np.array([game.terminal for game in games])
            yield [states, np.array(rewards), last, terminal]
            actions = self.actions.recv()
            rewards = [game.step(action) for game, action in zip(games, actions)]


class Rollouts(RNGDataFlow, Callback):
    """
    Batches of all games, with actions of the current network: [state [B, ...], action [B], return [B]].

    Actions are sent before a batch is used, so that the games continue during its update.
    """

    def __init__(self, simulators: list, length: int) -> None:
        self.simulators = simulators
        self.length = length

    def reset_state(self) -> None:
        """Start the workers. There is no session yet, so a fork is safe."""
        super().reset_state()
        self.workers = [MultiProcessRunnerZMQ(simulator, num_proc=1, hwm=1) for simulator in self.simulators]
        for worker in self.workers:
            worker.reset_state()

    def _setup_graph(self) -> None:
        self.predictor = self.trainer.get_predictor(["state"], ["scores", "value"])

    def __iter__(self):
        streams = [iter(worker) for worker in self.workers]
        self.workers = []  # the streams keep the workers, which end with this generator: at the end of training
        steps = []
        while True:
            seen = [next(stream) for stream in streams]
            state, reward, last, terminal = (np.concatenate(parts) for parts in zip(*seen))  # of all games, [G, ...]
            scores, value = self.predictor(state)  # [G, A], [G]
            noise = self.rng.gumbel(size=scores.shape)
            action = np.argmax(scores + noise, axis=1)  # the same as random draws from softmax(scores)
            for simulator, part in zip(self.simulators, np.split(action, len(self.simulators))):
                simulator.sender.send(part)
            steps.append((state, action, value, reward, last, terminal))
            if len(steps) > self.length:
                yield to_batch(steps)
                steps = steps[-1:]


def to_batch(steps: list) -> list:
    """Convert T + 1 steps of all games to a batch, without the actions that only started a new episode."""
    state, action, value, reward, last, terminal = (np.stack(parts) for parts in zip(*steps))  # [T + 1, G, ...]
    returns = lambda_returns(reward[1:], value, last, terminal)  # [T, G]
    used = ~last[:-1]  # [T, G]; it also makes one axis of the two
    return [state[:-1][used], action[:-1][used], returns[used]]


def lambda_returns(reward, value, last, terminal) -> np.ndarray:
    """
    Return the sums of the values and their generalized advantage estimates [T, G].

    The rewards are [T, G], the others [T + 1, G]. The value of a terminal state is ignored, since no rewards follow.
    """
    value = np.where(terminal, 0, value)
    returns = [value[-1]]  # from the last step to the first one
    for t in reversed(range(len(reward))):
        following = (1 - LAMBDA) * value[t + 1] + LAMBDA * returns[-1]
        returns.append(np.where(last[t], value[t], reward[t] + DISCOUNT * following))
    returns.reverse()
    return np.stack(returns[:-1])


class Model(GameModel):
    """A network with two outputs: the logits of the actions, and the value of the state."""

    def inputs(self):
        return [
            self.state_spec("state"),
            tf.TensorSpec([None], tf.int32, "action"),
            tf.TensorSpec([None], tf.float32, "return"),
        ]

    def build_graph(self, state, action, returns):
        hidden = features(state)
        logits = FullyConnected("policy", hidden, self.game.num_actions)
        logits = tf.identity(logits, name="scores")
        value = FullyConnected("critic", hidden, 1)
        value = tf.squeeze(value, 1, name="value")

        surprise = tf.nn.sparse_softmax_cross_entropy_with_logits(logits=logits, labels=action)  # [N]
        advantage = tf.stop_gradient(returns - value)  # [N]: how much better the action was than expected
        policy_cost = tf.reduce_mean(advantage * surprise, name="policy_cost")
        value_cost = tf.reduce_mean(tf.square(returns - value), name="value_cost")
        entropy = -tf.reduce_sum(tf.nn.softmax(logits) * tf.nn.log_softmax(logits), axis=1)  # [N]
        entropy = tf.reduce_mean(entropy, name="entropy")
        cost = tf.add(policy_cost, 0.5 * value_cost - self.args.entropy_weight * entropy, name="cost")
        add_moving_summary(policy_cost, value_cost, entropy, cost)
        return cost


def main(argv=None) -> None:
    args = get_args(__doc__, "a2c", SMALL, ATARI, argv)
    num_games = args.workers * args.games_per_worker
    seeds = 100 * args.seed + np.arange(num_games)
    simulators = [Simulator(args.env, part) for part in np.split(seeds, args.workers)]
    rollouts = Rollouts(simulators, args.length)
    model = Model(args, Game(args.env, args.seed))
    train_or_play(args, model, rollouts, [rollouts], num_games * args.length)


if __name__ == "__main__":
    main()

"""Tests of the reinforcement learning examples: returns, targets and states against closed forms, and the simulators."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys

import numpy as np
import pytest
from fakes.programs import read_stats

pytest.importorskip("gymnasium")

from tensorpack_lite import tfv1 as tf
from tensorpack_lite.dataflow.process.errors import WorkerDied
from tensorpack_lite.utils import fix_rng_seed

EXAMPLES = ["dqn", "a2c"]


@pytest.fixture
def dqn(load_example):
    return load_example("rl/dqn.py")


@pytest.fixture
def replay(load_example):
    return load_example("rl/replay_memory.py")


@pytest.fixture
def a2c(load_example):
    return load_example("rl/a2c.py")


@pytest.fixture
def games(load_example):
    return load_example("rl/rl_games.py")


@pytest.fixture
def training(load_example):
    return load_example("rl/game_training.py")


class Episode:
    """An episode of random frames, actions and rewards, and what a replay memory should return for its steps."""

    def __init__(self, rng, length: int, terminal: bool) -> None:
        self.frames = rng.randint(0, 255, size=[length + 1, 2, 3]).astype("uint8")
        self.actions = rng.randint(0, 5, size=length)
        self.rewards = rng.randn(length)
        self.terminal = terminal

    def add_to(self, memory) -> None:
        for frame, action, reward in zip(self.frames, self.actions, self.rewards):
            memory.add(frame, action, reward, last=False, terminal=False)
        memory.add(self.frames[-1], 0, 0.0, last=True, terminal=self.terminal)

    def state(self, t: int, history: int) -> np.ndarray:
        return np.stack([self.frames[max(0, t - k)] for k in reversed(range(history))])

    def expected(self, t: int, history: int, num_steps: int, discount: float) -> list:
        end = min(t + num_steps, len(self.rewards))
        total = sum(discount ** (k - t) * self.rewards[k] for k in range(t, end))
        is_over = self.terminal and end == len(self.rewards)
        factor = 0.0 if is_over else discount ** (end - t)
        return [self.state(t, history), self.actions[t], total, factor, self.state(end, history)]


class TestReplayMemory:
    @pytest.mark.parametrize("history", [1, 4])
    def test_batches_equal_a_reference_that_knows_whole_episodes(self, replay, history):
        """Returns and states stay within an episode, and only a terminal state, not a time limit, ends the rewards."""
        rng = np.random.RandomState(0)
        episodes = [Episode(rng, int(rng.randint(1, 9)), terminal=i % 2 == 0) for i in range(40)]
        memory = replay.ReplayMemory(100, 8, 3, 0.99, (history, 2, 3), "uint8")
        steps = []  # (number of the row, episode, step)
        for episode in episodes:
            steps += [(memory.count + t, episode, t) for t in range(len(episode.actions))]
            episode.add_to(memory)
        assert memory.count > 200  # rows have been overwritten
        within = [s for s in steps if memory.count - 100 + history - 1 <= s[0] < memory.count - 3]
        batch = memory.take(np.array([row for row, _, _ in within]))
        for i, (_, episode, t) in enumerate(within):
            expected = episode.expected(t, history, 3, 0.99)
            for component, value in zip(batch, expected):
                np.testing.assert_allclose(component[i], value, rtol=1e-6, atol=1e-6)

    def test_random_batches_have_only_rows_with_an_action_that_are_still_stored(self, replay):
        """Batches contain all rows with an action that are stored completely, and no others."""
        fix_rng_seed(1)
        memory = replay.ReplayMemory(40, 32, 3, 0.99, (2, 1), "float32")
        memory.reset_state()
        for i in range(100):  # every tenth row is the last one of an episode
            memory.add([i], i, 1.0, last=i % 10 == 9, terminal=True)
        batches = iter(memory)
        seen = set(np.concatenate([next(batches)[1] for _ in range(100)]))
        assert {i for i in range(61, 97) if i % 10 != 9} == seen


class TestDQN:
    def test_the_target_network_evaluates_the_action_of_the_online_network(self, dqn):
        """The target is r + d q'(argmax q), not r + d max q'."""
        with tf.Graph().as_default(), tf.Session() as session:
            online = tf.constant([[1.0, 2.0, 0.0], [5.0, 1.0, 0.0]])
            target = tf.constant([[10.0, 20.0, 30.0], [-1.0, 3.0, 2.0]])
            returns, discount = tf.constant([0.5, 1.0]), tf.constant([0.9, 0.0])
            values = session.run(dqn.double_q_target(returns, discount, online, target))
        np.testing.assert_allclose(values, [0.5 + 0.9 * 20, 1.0], rtol=1e-6)


def advantage_estimates(a2c, reward, value, last, terminal):
    """Return the generalized advantage estimates as sums over the temporal differences, game by game."""
    length, num_games = reward.shape
    value = np.where(terminal, 0, value)
    estimates = np.zeros([length, num_games])
    for game in range(num_games):
        for start in range(length):
            factor = 1.0
            for t in range(start, length):
                if last[t, game]:
                    break
                difference = reward[t, game] + a2c.DISCOUNT * value[t + 1, game] - value[t, game]
                estimates[start, game] += factor * difference
                factor *= a2c.DISCOUNT * a2c.LAMBDA
    return estimates


class TestReturns:
    @pytest.mark.parametrize("weight", [0.0, 0.95, 1.0])
    def test_returns_are_values_plus_advantage_estimates(self, a2c, monkeypatch, weight):
        """The recursion equals the sum of discounted temporal differences, which does not cross the end of an episode."""
        monkeypatch.setattr(a2c, "LAMBDA", weight)
        rng = np.random.RandomState(0)
        reward, value = rng.randn(12, 30), rng.randn(13, 30)
        last = rng.rand(13, 30) < 0.2
        terminal = last & (rng.rand(13, 30) < 0.5)
        returns = a2c.lambda_returns(reward, value, last, terminal)
        estimates = advantage_estimates(a2c, reward, value, last, terminal)
        np.testing.assert_allclose(returns, estimates + np.where(terminal, 0, value)[:-1], atol=1e-9)

    def test_batches_omit_the_actions_after_the_end_of_an_episode(self, a2c):
        """The action in the last state of an episode only starts a new one, so no gradient follows from it."""
        flags = [[False, True], [False, False], [True, False]]
        steps = [
            (np.full([2, 1, 4], t), np.array([t, 10 + t]), np.zeros(2), np.ones(2), np.array(last), np.zeros(2, bool))
            for t, last in enumerate(flags)
        ]  # fmt: skip
        state, action, returns = a2c.to_batch(steps)
        np.testing.assert_array_equal(action, [0, 1, 11])
        np.testing.assert_array_equal(state[:, 0, 0], [0, 1, 1])
        assert (3,) == returns.shape


class FakeEnv:
    """An environment that ends after two steps, by turns with a terminal state and by a time limit."""

    def __init__(self, games) -> None:
        self.observation_space = games.gymnasium.spaces.Box(-9, 9, [1, 1], "float32")
        self.action_space = games.gymnasium.spaces.Discrete(2)
        self.episodes = 0

    def reset(self, seed=None):
        self.time = 0
        self.episodes += 1
        return [[10 * self.episodes]], {}

    def step(self, action):
        self.time += 1
        is_end = self.time == 2
        ends_by_limit = self.episodes % 2 == 0
        state = [[10 * self.episodes + self.time]]
        return state, 1.0, is_end and not ends_by_limit, is_end and ends_by_limit, {}


class TestGames:
    def test_a_game_shows_its_final_state_and_then_restarts(self, games, monkeypatch):
        """The final state is seen once; the next action starts a new episode. A time limit is not terminal."""
        monkeypatch.setattr(games, "make_env", lambda *args: FakeEnv(games))
        game = games.Game("Fake-v0", seed=1)
        seen = []
        for _ in range(6):
            seen.append((float(game.state[0, 0]), bool(game.last), bool(game.terminal)))
            seen.append(game.step(0))
        assert seen[0::2] == [
            (10, False, False), (11, False, False), (12, True, True),
            (20, False, False), (21, False, False), (22, True, False),
        ]  # fmt: skip
        assert [1, 1, 0, 1, 1, 0] == seen[1::2]

    def test_the_scores_are_those_of_one_episode_each(self, games, training):
        """CartPole with constant actions falls after 8 to 11 steps, and each step has a reward of 1."""
        players = [games.Game("CartPole-v1", seed) for seed in range(5)]
        scores = training.play(players, lambda state: [np.tile([0.0, 1.0], [len(state), 1])])
        assert all(7 <= score <= 12 for score in scores)
        assert all(player.last and player.terminal for player in players)

    def test_continuous_actions_are_refused(self, games):
        """An environment without discrete actions raises a ValueError that names it."""
        with pytest.raises(ValueError, match=r"Pendulum-v1: the actions are Box.*expected Discrete"):
            games.make_env("Pendulum-v1")

    def test_atari_without_its_package_says_what_to_install(self, games, monkeypatch):
        """Without ale-py, an Atari game raises an ImportError with the Python that it needs."""
        monkeypatch.setitem(sys.modules, "ale_py", None)
        with pytest.raises(ImportError, match=r"ALE/Pong-v5: needs ale-py \(Python >= 3.9\)"):
            games.make_env("ALE/Pong-v5")

    def test_states_of_atari_are_four_gray_frames(self, games):
        """An Atari state is [4, 84, 84] bytes, and the newest frame is the last one."""
        pytest.importorskip("ale_py")
        game = games.Game("ALE/Pong-v5", seed=1, is_training=True)
        before = game.state
        game.step(2)
        assert ((4, 84, 84), "uint8", 6) == (game.state.shape, game.state.dtype, game.num_actions)
        np.testing.assert_array_equal(game.state[:3], before[1:])


@pytest.mark.parametrize(
    ("shape", "dtype", "features"), [([5, 1, 4], tf.float32, 128), ([2, 4, 84, 84], tf.uint8, 256)]
)
def test_features_of_states(load_example, shape, dtype, features):
    """The network has 128 features for the states of small games, and 256 for the four frames of an Atari game."""
    made = load_example("rl/game_model.py").features(tf.zeros(shape, dtype))
    assert [shape[0], features] == made.shape.as_list()


@pytest.fixture
def rollouts(a2c):
    """Rollouts of four games in two processes, with random actions."""
    fix_rng_seed(1)
    flow = a2c.Rollouts([a2c.Simulator("CartPole-v1", [i, i + 1]) for i in (0, 2)], length=5)
    flow.predictor = lambda state: [np.zeros([len(state), 2]), np.zeros(len(state))]
    flow.reset_state()
    return flow


@pytest.mark.slow
class TestRollouts:
    def test_batches_have_the_steps_of_all_games(self, rollouts):
        """Twenty steps of four games are in a batch, except those that only start a new episode."""
        flow = iter(rollouts)
        sizes = []
        for _ in range(20):
            state, action, returns = next(flow)
            assert state.shape[1:] == (1, 4)
            assert len(state) == len(action) == len(returns)
            sizes.append(len(state))
        assert max(sizes) == 20
        assert min(sizes) >= 12
        assert sum(sizes) < 20 * 20  # some episodes have ended

    def test_a_killed_worker_raises_an_error_that_names_it(self, rollouts):
        """A worker that is killed raises WorkerDied with its pid, instead of a wait without end; the others end, too."""
        flow = iter(rollouts)
        next(flow)
        workers = multiprocessing.active_children()
        os.kill(workers[-1].pid, signal.SIGKILL)
        with pytest.raises(WorkerDied, match=rf"pid {workers[-1].pid}.*Simulator.*SIGKILL"):
            for _ in range(100):
                next(flow)
        del flow
        assert not [worker for worker in workers if worker.is_alive()]

    def test_the_workers_end_when_the_iterator_is_dropped(self, rollouts):
        """At the end of training, FeedInput drops its iterator, and the worker processes end."""
        flow = iter(rollouts)
        next(flow)
        assert len(multiprocessing.active_children()) == 2
        flow.close()
        del flow
        assert not multiprocessing.active_children()


@pytest.mark.slow
@pytest.mark.parametrize("name", EXAMPLES)
def test_two_steps_and_a_resumed_epoch(run_example, tmp_path, name):
    """Each example trains two steps, writes scores and a checkpoint, and continues with the next epoch."""
    options = ["--steps-per-epoch", "2", "--eval-games", "2", "--log-dir", str(tmp_path / "log")]
    run_example(f"rl/{name}.py", [*options, "--max-epoch", "1"], tmp_path)
    assert (tmp_path / "log" / "scores.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "log" / "model-2.index").exists()
    assert 8 <= read_stats(tmp_path / "log")[-1]["mean_score"] <= 500
    output = run_example(f"rl/{name}.py", [*options, "--max-epoch", "2", "--resume"], tmp_path)
    assert "Epoch 2 of 2" in output
    assert 4 == read_stats(tmp_path / "log")[-1]["global_step"]


@pytest.mark.slow
def test_a_game_is_recorded(run_example, tmp_path):
    """--play loads the last checkpoint, and writes one game as an animation."""
    pytest.importorskip("pygame")  # gymnasium draws CartPole with it
    options = ["--steps-per-epoch", "1", "--max-epoch", "1", "--eval-games", "1"]
    options += ["--log-dir", str(tmp_path / "log")]
    run_example("rl/dqn.py", options, tmp_path)
    output = run_example("rl/dqn.py", [*options, "--play"], tmp_path)
    assert "A score of" in output
    assert (tmp_path / "log" / "game.gif").read_bytes().startswith(b"GIF8")

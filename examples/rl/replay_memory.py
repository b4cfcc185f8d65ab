"""
Replay memory for Q-learning: a DataFlow that is filled while it is read, and that knows neither games nor TensorFlow.

dqn.py imports this module.
"""

from __future__ import annotations

import numpy as np

from tensorpack_lite.dataflow import RNGDataFlow


class ReplayMemory(RNGDataFlow):
    """
    The last steps of a game, and random batches of them: [state, action, return, discount, state after the return].

    Rows are numbered from the first one ever added. Each has one frame of a state. `start` is the first row of the episode,
    whose ends returns and states do not cross. The discount in a batch is 0 if no rewards follow.

    Args:
        capacity: the number of rows that are kept.
        batch: the largest number of steps in a batch. Rows without an action are drawn too, and left out.
        num_steps: the number of rewards in a return.
        discount: the weight of a reward, relative to the reward one step earlier.
        shape: of a state: the number of frames, and the shape of a frame.
        dtype: of a frame.
    """

    def __init__(self, capacity: int, batch: int, num_steps: int, discount: float, shape: tuple, dtype: str) -> None:
        self.capacity = capacity
        self.batch = batch
        self.num_steps = num_steps
        self.discount = discount
        self.history = shape[0]  # frames in a state
        numbers = [("action", "i4"), ("reward", "f4"), ("last", "?"), ("terminal", "?"), ("start", "i8")]
        self.rows = np.zeros(capacity, [("frame", dtype, shape[1:]), *numbers])
        self.rows["last"][-1] = True  # the first row starts an episode
        self.count = 0

    def add(self, frame: np.ndarray, action: int, reward: float, last: bool, terminal: bool) -> None:
        """Add a frame, with the action that followed and its reward. They have no meaning in the last row of an episode."""
        previous = self.rows[(self.count - 1) % self.capacity]
        start = self.count if previous["last"] else previous["start"]
        self.rows[self.count % self.capacity] = frame, action, reward, last, terminal, start
        self.count += 1

    def get(self, name: str, rows: np.ndarray) -> np.ndarray:
        """Return a field of these rows."""
        return self.rows[name][rows % self.capacity]

    def state(self, rows: np.ndarray) -> np.ndarray:
        """Return the states of these rows. Early in an episode, the first frame is repeated."""
        ago = np.arange(self.history)[::-1]  # e.g. 3, 2, 1, 0: the newest frame is the last one
        frames = rows[:, None] - ago  # numbers of rows, [N, history]
        first = self.get("start", rows)[:, None]  # [N, 1]
        return self.get("frame", np.maximum(frames, first))

    def take(self, rows: np.ndarray) -> list:
        """Return the batch that begins with these rows. None of them may be the last one of an episode."""
        ahead = np.arange(self.num_steps)
        following = rows[:, None] + ahead  # numbers of rows, [N, num_steps]
        counts = np.cumprod(~self.get("last", following), axis=1)  # 1 until the end of the episode, then 0
        rewards = self.get("reward", following) * counts  # [N, num_steps]
        returns = rewards @ self.discount**ahead  # [N]

        num_rewards = counts.sum(axis=1)  # [N]
        end = rows + num_rewards
        discount = np.where(self.get("terminal", end), 0, self.discount**num_rewards)
        return [self.state(rows), self.get("action", rows), returns, discount, self.state(end)]

    def __iter__(self):
        while True:
            # rows whose earlier frames are still there, and whose rewards are already there
            oldest = max(0, self.count - self.capacity) + self.history - 1
            rows = self.rng.randint(oldest, self.count - self.num_steps, size=self.batch)
            has_action = ~self.get("last", rows)
            yield self.take(rows[has_action])

"""A training with `Speed` whose steps, data and threads are simulated: it takes no time, and each seed gives the same."""

from __future__ import annotations

from bisect import bisect_right
from random import Random
from types import SimpleNamespace

from tensorpack_lite.dataflow.base import DataFlow
from tensorpack_lite.dataflow.meter import Meter
from tensorpack_lite.dataflow.records import COUNT, CPU, NUM_TIMED, WALL
from tensorpack_lite.diagnostics.speed import speed, speed_window
from tensorpack_lite.diagnostics.speed.cores import CpuTimes
from tensorpack_lite.diagnostics.speed.speed import Speed
from tensorpack_lite.input_source import waiting
from tensorpack_lite.input_source.queueing import QueueInput
from tensorpack_lite.input_source.staging import StagingInput
from tensorpack_lite.loop.session import HookedSession
from tensorpack_lite.ranks.alone import Alone

MS = 10**6  # nanoseconds
_CAPACITY = 50
_NUM = 100  # elements that are simulated ahead


class Nothing(DataFlow):
    """Data whose arrival is simulated."""

    def __iter__(self):
        yield []


class Step:
    """The fetches of each run."""

    fetches = ()


class SimulatedTraining:
    """
    One process on full cores, with StagingInput or QueueInput.

    Args:
        monkeypatch: replaces the clock, the default session and the timer of the library.
        seed: of its random times.
        graph, data: mean milliseconds of a step whose data is ready, and of a datapoint.
        is_staged: whether the input is a StagingInput.
        late: mean milliseconds for which a thread that may run sometimes waits for a core.
        outside: milliseconds of the callbacks in a step.
        after: of `Speed`.

    Attributes:
        said: the limit of each verdict, and the seconds of steps before it.
    """

    def __init__(self, monkeypatch, seed, graph=10.0, data=20.0, is_staged=True, late=10.0, outside=0.5, after=30.0):
        self._random, self._graph, self._late = Random(seed), graph, late
        self._is_staged, self._outside = is_staged, outside
        self._noise = self._random.choice([0.05, 0.3, 0.6])
        self._now, self._num_taken, self._num_returned = 10**9, 1, 1
        self._timers, self.said = [], []
        self._enqueuing, self._data = Meter("enqueuing"), Meter("MapData(slow)")
        self._mean, self._begun, self._arrived, self._returned = data, [0], [self._now], [self._now]
        self._simulate_data()
        source = self._make_source()
        session = HookedSession(SimpleNamespace(graph=None), [])
        self._observers = session.observers
        self._loop = SimpleNamespace(local_step=-1)
        self._speed = Speed(after=after)
        self._speed.trainer = SimpleNamespace(
            find_callbacks=lambda kind: [] if kind is Speed else [SimpleNamespace(source=source)],
            hooked_sess=session,
            ranks=Alone(),
            loop=self._loop,
            is_chief=True,
            callbacks=SimpleNamespace(epoch_seconds=(), replace_calls=lambda replace: None),
        )
        for module in (waiting, speed_window):
            monkeypatch.setattr(module, "perf_counter_ns", lambda: self._now)
        monkeypatch.setattr(speed, "perf_counter", lambda: self._now / 1e9)
        monkeypatch.setattr(waiting, "sleep", lambda seconds: self._pass(1000 * seconds))
        monkeypatch.setattr(waiting.tf, "get_default_session", lambda: SimpleNamespace(run=self._read_size))
        monkeypatch.setattr(waiting, "dependency_of_fetches", lambda fetches, op: True)
        monkeypatch.setattr(speed_window, "cpu_times", lambda: CpuTimes(2e-9 * self._now, 0.0, 0.0))
        monkeypatch.setattr(speed_window, "usable_cores", lambda: 2.0)
        monkeypatch.setattr(speed, "Timer", self._make_timer)
        monkeypatch.setattr(speed, "write_note", self._note)

    def train(self, num_verdicts=1, steps=10**9):
        """Train until so many verdicts were given, in epochs of so many steps."""
        begin = self._now
        self._speed._before_train()
        while len(self.said) < num_verdicts and self._now < begin + 200_000 * MS:
            self._speed._before_epoch()
            for self._loop.local_step in range(steps):
                self._run_timers()
                self._step()
                if len(self.said) >= num_verdicts:
                    break
            self._speed._after_epoch()
            self._speed._trigger_epoch()
        self._speed._after_train()
        return self.said

    def _simulate_data(self):
        """Draw when each element is in the queue, and when the calls that enqueue begin and return, for some more elements."""
        for _ in range(_NUM):
            arrived = max(self._arrived[-1] + self._draw(self._mean), self._returned[-1] + MS // 10)
            self._begun.append(arrived - MS // 10)
            self._arrived.append(arrived)
            self._returned.append(arrived + MS // 20 + self._delay())

    def _draw(self, mean):
        return int(mean * MS * self._random.lognormvariate(-(self._noise**2) / 2, self._noise))

    def _delay(self):
        """Draw how long a thread that may run waits for a core."""
        return int(MS * self._random.expovariate(1 / self._late)) if self._random.random() < 0.3 else 0

    def _make_source(self):
        self._input = QueueInput(Nothing())
        self._input.thread = self._thread = SimpleNamespace(on_enqueued=None, enqueuing=self._enqueuing)
        operation = SimpleNamespace(type="FIFOQueueV2", get_attr=lambda name: _CAPACITY)
        ref = SimpleNamespace(op=operation, consumers=lambda: [SimpleNamespace(type="QueueDequeueV2")])
        self._input.queue = SimpleNamespace(queue_ref=ref)
        self._input._ops = SimpleNamespace(max_chunk=1, size=None)
        self._input.flow.meters = lambda: [self._enqueuing, self._data]
        return StagingInput(self._input) if self._is_staged else self._input

    def _make_timer(self, seconds, function, args):
        timer = SimpleNamespace(due=self._now + seconds * 1000 * MS, call=lambda: function(*args), join=lambda: None)
        timer.start, timer.cancel = lambda: self._timers.append(timer), self._timers.clear
        return timer

    def _run_timers(self):
        for timer in [timer for timer in self._timers if timer.due <= self._now]:
            self._timers.remove(timer)
            timer.call()

    def _note(self, kind, text, **values):
        self.said.append((values["limit"], self._now / (1000 * MS) - 1))

    def _pass(self, milliseconds):
        """Let time pass, and the enqueuing thread count the elements whose calls return meanwhile."""
        end = self._now + int(milliseconds * MS)
        while self._begun[-10] <= end:
            self._simulate_data()
        while self._returned[self._num_returned] <= end:
            self._now = self._returned[self._num_returned]
            self._num_returned += 1
            for meter in (self._enqueuing, self._data):
                meter.words[COUNT] = self._num_returned
            for word in (WALL, CPU):
                self._data.words[word] += self._now - self._returned[self._num_returned - 2]
            self._data.words[NUM_TIMED] += 1
            self._enqueuing.set_state(1)
            if self._thread.on_enqueued is not None:
                self._thread.on_enqueued(self._num_returned)
        self._now = end
        if self._begun[self._num_returned] <= end:
            self._enqueuing.begin_wait(is_for_room=True)

    def _read_size(self, _):
        """Return the size of the queue, as a run of the session does."""
        self._pass(self._random.uniform(0.1, 0.5))
        return bisect_right(self._arrived, self._now) - self._num_taken

    def _step(self):
        """Run a step. With StagingInput, it waits for the data of the next one while it computes."""
        observers = tuple(self._observers)
        for observer in observers:
            observer.begin_run(Step)
        graph, arrived = self._draw(self._graph), self._arrived[self._num_taken]
        begin = self._now
        end = max(begin + graph, arrived) if self._is_staged else max(begin, arrived) + graph
        self._num_taken += 1
        self._pass((end - begin) / MS + 0.02)
        for observer in observers:
            observer.end_run(Step, True)
        self._pass(self._outside + self._delay() / MS)

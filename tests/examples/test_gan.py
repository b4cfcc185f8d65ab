"""Tests of the GAN trainers, on networks with one variable each, and of the GAN examples."""

from __future__ import annotations

import numpy as np
import pytest
from fakes.programs import read_stats
from fakes.trainers import run

from tensorpack_lite import Callback, DataFromList, QueueInput, RepeatedData
from tensorpack_lite import tfv1 as tf

EXAMPLES = ["dcgan", "wgan", "wgan_gp", "conditional_gan", "infogan"]
COLUMNS = {"dcgan": 10, "wgan": 10, "wgan_gp": 10, "conditional_gan": 8, "infogan": 8}


@pytest.fixture
def gan(load_example):
    return load_example("gan/gan_trainer.py")


@pytest.fixture
def players(gan):
    """Return a model with one variable per network: d_loss = v (x - w), g_loss = -v w x."""

    class Players(gan.GANModelDesc):
        def inputs(self):
            return [tf.TensorSpec([None], tf.float32, "x")]

        def build_graph(self, x):
            with tf.variable_scope(self.g_scope):
                w = tf.get_variable("w", initializer=1.0)
            with tf.variable_scope(self.d_scope):
                v = tf.get_variable("v", initializer=2.0)
            return tf.reduce_mean(v * (x - w), name="d_loss"), tf.reduce_mean(-v * w * x, name="g_loss")

        def optimizers(self):
            return tf.train.GradientDescentOptimizer(0.1), tf.train.GradientDescentOptimizer(0.01)

    return Players()


def numbers(*values):
    """Return an input with one of these numbers per step."""
    return QueueInput(RepeatedData(DataFromList([[[value]] for value in values], shuffle=False), -1))


def train(trainer, steps, *callbacks):
    """Train without output; return the values (w, v) after each step."""
    watch = Watch()
    run(trainer, [*callbacks, watch], steps=steps, epochs=1)
    return watch.values


class Watch(Callback):
    """Records both variables after each step."""

    def _setup_graph(self):
        variables = {v.op.name: v for v in tf.trainable_variables()}
        self.tensors = [variables["gen/w"].read_value(), variables["discrim/v"].read_value()]
        self.values = []

    def _trigger_step(self):
        self.values.append(tuple(self.trainer.sess.run(self.tensors)))


class TestGANTrainer:
    def test_both_networks_are_updated_in_each_step(self, gan, players):
        """w += 0.01 v x and v -= 0.1 (x - w): both updates use the old values, in one step with one batch."""
        trainer = gan.GANTrainer(numbers(3, 5), players)
        w, v = 1.0, 2.0
        for x, values in zip([3, 5], train(trainer, 2)):
            w, v = w + 0.01 * v * x, v - 0.1 * (x - w)
            np.testing.assert_allclose((w, v), values, rtol=1e-6)
        assert 2 == trainer.loop.global_step

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"lost": True}, r"not in the scopes \['discrim', 'gen'\]: lost"),
            (
                {"g_scope": "generator", "build_graph": lambda x: (tf.reduce_mean(x), tf.reduce_mean(x))},
                "no trainable variable in the scope 'discrim'",
            ),
            ({"forgets": True}, "alone does not depend on gen/w"),
        ],
        ids=["outside of both scopes", "no variables", "a loss without a variable"],
    )
    def test_variables_that_are_not_trained(self, gan, players, change, message):
        """A variable in neither scope, a scope without variables, or a loss that does not depend on them, is an error."""
        build = players.build_graph
        if change.pop("lost", False):
            tf.get_variable("lost", initializer=0.0)
        if change.pop("forgets", False):
            change["build_graph"] = lambda x: (build(x)[0], tf.reduce_mean(x, name="alone"))
        for name, value in change.items():
            setattr(players, name, value)
        with pytest.raises(ValueError, match=message):
            gan.GANTrainer(numbers(3), players)


class TestSeparateGANTrainer:
    @pytest.mark.parametrize(
        ("periods", "moves"),
        [((1, 1), "DG DG DG DG DG DG"), ((1, 3), "DG D D DG D D"), ((2, 1), "DG G DG G DG G")],
    )
    def test_periods(self, gan, players, periods, moves):
        """Each network is updated at its period, and the first step updates both; global_step counts updates."""
        trainer = gan.SeparateGANTrainer(numbers(3), players, *periods)
        before, seen = (1.0, 2.0), []
        for after in train(trainer, 6):
            seen.append(("D" if after[1] != before[1] else "") + ("G" if after[0] != before[0] else ""))
            before = after
        assert moves.split() == seen
        assert len(moves.replace(" ", "")) == trainer.loop.global_step

    def test_separate_batches(self, gan, players):
        """Each update uses a separate batch: the discriminator gets 3 and 5, the generator 7 and 9."""
        w, v = 1.0, 2.0
        for values, (seen_by_d, seen_by_g) in zip(
            train(gan.SeparateGANTrainer(numbers(3, 7, 5, 9), players), 2), [(3, 7), (5, 9)]
        ):
            v -= 0.1 * (seen_by_d - w)
            w += 0.01 * v * seen_by_g
            np.testing.assert_allclose((w, v), values, rtol=1e-6)

    def test_invalid_periods(self, gan, players):
        """Two periods above 1 raise ValueError, because some steps would have no update."""
        with pytest.raises(ValueError, match="d_period or g_period must be 1 .got 2 and 3"):
            gan.SeparateGANTrainer(numbers(3), players, 2, 3)


class TestMultiGPUGANTrainer:
    def test_towers_share_variables_and_average_losses(self, gan, players):
        """Two towers with the inputs 3 and 5 give the same result as one with 4."""
        trainer = gan.MultiGPUGANTrainer(2, numbers(3, 5), players)
        values = train(trainer, 3)
        assert {"gen/w", "discrim/v"} == {v.op.name for v in tf.trainable_variables()}
        assert ["tower0", "tower1"] == [tower.ns_name for tower in trainer.towers.training()]
        with tf.Graph().as_default():
            expected = train(gan.GANTrainer(numbers(4), type(players)()), 3)
        np.testing.assert_allclose(expected, values, rtol=1e-6)


class TestNetworks:
    def test_sheets_have_a_row_for_each_code(self, load_example):
        """In a row of InfoGAN's sheet only the first continuous code changes."""
        feeds = load_example("gan/infogan.py").sheet_feeds()
        np.testing.assert_array_equal(np.repeat(np.arange(10), 8), feeds["code"])
        noise = feeds["z"].reshape(10, 8, -1)
        np.testing.assert_allclose(np.linspace(-1, 1, 8), noise[3, :, 0], rtol=1e-6)
        assert 0 == np.ptp(noise[:, :, 1:], axis=(0, 1)).max()

    def test_clip_weights(self, load_example, gan, players):
        """After each step the critic's weights are in [-limit, limit]; those of the generator are not clipped."""
        clip = load_example("gan/wgan.py").ClipWeights(players, limit=0.5)
        trainer = gan.GANTrainer(numbers(3), players)
        ((w, v),) = train(trainer, 1, clip)
        assert 0.5 == v
        assert w > 0.5

    def test_slopes_between_images(self, load_example, monkeypatch):
        """The critic sum(3 x) has the slope 3 sqrt(784) everywhere."""
        example = load_example("gan/wgan_gp.py")
        monkeypatch.setattr(example, "critic", lambda x: tf.reduce_sum(3 * x, [1, 2, 3]))
        images = [tf.constant(np.random.RandomState(k).rand(2, 28, 28, 1), tf.float32) for k in (0, 1)]
        slopes = example.slopes_between(*images)
        with tf.Session() as session:
            np.testing.assert_allclose([84.0, 84.0], session.run(slopes), rtol=1e-5)

    def test_labels_become_channels(self, load_example):
        """The result has eleven channels: the image, and ten of which only the label's is 1."""
        image, label = tf.zeros([2, 28, 28, 1]), tf.one_hot([3, 7], 10)
        with tf.Session() as session:
            made = session.run(load_example("gan/conditional_gan.py").with_label(image, label))
        assert (2, 28, 28, 11) == made.shape
        np.testing.assert_array_equal([4, 8], made[:, 5, 6].argmax(axis=1))

    def test_batches_of_digits(self, load_example):
        """Batches are infinite, with images [N, 28, 28] in [0, 1] and int32 labels."""
        data = load_example("gan/gan_digits.py").get_data("digits", batch=16)
        data.reset_state()
        image, label = next(iter(data))
        assert ((16, 28, 28), np.float32) == (image.shape, image.dtype)
        assert 0 <= image.min() < image.max() <= 1
        assert ((16,), np.int32) == (label.shape, label.dtype)


def read_sheet(path, columns):
    """Return the samples of a sheet, [N, 28, 28]; images are separated by one pixel."""
    with tf.Graph().as_default(), tf.Session() as session:
        sheet = session.run(tf.image.decode_png(path.read_bytes()))[:, :, 0].astype("float32")
    rows = (len(sheet) + 1) // 29
    return np.stack([sheet[29 * i : 29 * i + 28, 29 * j : 29 * j + 28] for i in range(rows) for j in range(columns)])


def roughness(images):
    """Return how much neighboring pixels differ: 1 for noise, near 0 for smooth images."""
    neighbours = np.square(np.diff(images, axis=2)).mean()
    return neighbours / (2 * images.var())


@pytest.mark.slow
@pytest.mark.parametrize("name", EXAMPLES)
def test_example_writes_sheets(name, tmp_path, run_example):
    """After two steps the losses are finite, and there is a sheet in the directory and in the event file."""
    arguments = ["--steps-per-epoch", "2", "--max-epoch", "1", "--log-dir", "log"]
    if name == "dcgan":
        arguments += ["--gpus", "2"]
    run_example(f"gan/{name}.py", arguments, tmp_path)
    stats = read_stats(tmp_path / "log")[-1]
    losses = [stats[key] for key in stats if key in ("d_loss", "g_loss", "distance", "slope", "code_loss")]
    assert losses
    assert np.isfinite(losses).all()
    assert (80, 28, 28) == read_sheet(tmp_path / "log" / "samples-001.png", COLUMNS[name]).shape
    assert "samples" in images_in_event_file(tmp_path / "log")


def images_in_event_file(directory):
    (path,) = directory.glob("events.out.tfevents*")
    events = tf.train.summary_iterator(str(path))
    return {v.tag.split("/")[0] for e in events for v in e.summary.value if v.HasField("image")}


@pytest.mark.slow
@pytest.mark.proof
def test_wgan_learns(tmp_path, run_example):
    """
    After 8 of 20 epochs, the critic's distance is at most half of its maximum.

    Samples are smooth like digits, unlike noise; their mean resembles the mean digit, and they differ from each other.
    """
    run_example("gan/wgan.py", ["--max-epoch", "8", "--log-dir", "log"], tmp_path)
    stats = read_stats(tmp_path / "log")
    distances = [line["distance"] for line in stats]
    assert np.isfinite(distances).all()
    assert distances[-1] <= max(distances) / 2

    from tensorpack_lite.dataflow.dataset import Digits

    samples = read_sheet(tmp_path / "log" / "samples-008.png", 10)
    digits = Digits("train").images[..., 0]
    noise = np.random.RandomState(0).uniform(0, 255, samples.shape)
    assert roughness(digits) < 0.2 < 0.9 < roughness(noise)
    assert roughness(samples) < 0.4
    assert np.corrcoef(samples.mean(axis=0).ravel(), digits.mean(axis=0).ravel())[0, 1] > 0.8
    assert samples.std(axis=0).mean() > 10  # they differ from each other

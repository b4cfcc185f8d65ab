"""The GAN trainers do what they say, on players of one number each; the GANs learn."""

from __future__ import annotations

import json

import numpy as np
import pytest

pytest.importorskip("tensorflow")

from tensorpack_lite import Callback, DataFromList, QueueInput, RepeatedData
from tensorpack_lite import tfv1 as tf

EXAMPLES = ["dcgan", "wgan", "wgan_gp", "conditional_gan", "infogan"]
COLUMNS = {"dcgan": 10, "wgan": 10, "wgan_gp": 10, "conditional_gan": 8, "infogan": 8}


@pytest.fixture
def gan(load_example):
    return load_example("gan/gan_trainer.py")


@pytest.fixture
def players(gan):
    """
    A generator of one number w and a discriminator of one number v: d_loss = v (x - w), g_loss = -v w x.
    """

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
    """An input that gives these, one a step."""
    return QueueInput(RepeatedData(DataFromList([[[value]] for value in values], shuffle=False), -1))


def train(trainer, steps, *callbacks):
    """Train quietly; gives the two numbers (w, v) after each step."""
    watch = Watch()
    trainer.train_with_defaults(
        callbacks=[*callbacks, watch],
        extra_callbacks=[],
        monitors=[],
        steps_per_epoch=steps,
        max_epoch=1,
    )
    return watch.values


class Watch(Callback):
    """Notes the two numbers after each step."""

    def _setup_graph(self):
        variables = {v.op.name: v for v in tf.trainable_variables()}
        self.tensors = [variables["gen/w"].read_value(), variables["discrim/v"].read_value()]
        self.values = []

    def _trigger_step(self):
        self.values.append(tuple(self.trainer.sess.run(self.tensors)))


class TestGANTrainer:
    def test_both_move_in_each_step_by_the_gradients_before_it(self, gan, players):
        """w += 0.01 v x, v -= 0.1 (x - w), each with the other's old value, each with its own optimizer."""
        w, v = 1.0, 2.0
        for x, values in zip([3, 5], train(gan.GANTrainer(numbers(3, 5), players), 2)):
            w, v = w + 0.01 * v * x, v - 0.1 * (x - w)
            np.testing.assert_allclose((w, v), values, rtol=1e-6)

    def test_a_step_counts_once(self, gan, players):
        """One run of the hooked session a step, one batch for both players."""
        trainer = gan.GANTrainer(numbers(3), players)
        train(trainer, 4)
        assert 4 == trainer.loop.global_step

    def test_variables_are_told_apart_by_their_scope(self, gan, players):
        """Discriminator first."""
        gan.GANTrainer(numbers(3), players)
        d_vars, g_vars = players.get_gan_var_list()
        assert ["discrim/v"] == [v.op.name for v in d_vars]
        assert ["gen/w"] == [v.op.name for v in g_vars]

    def test_a_variable_of_nobody_is_told(self, gan, players):
        """It would never be trained."""
        tf.get_variable("lost", initializer=0.0)
        with pytest.raises(ValueError, match=r"in neither of \['discrim', 'gen'\]: lost"):
            gan.GANTrainer(numbers(3), players)

    def test_a_scope_without_variables_is_told(self, gan, players):
        """A wrong name of a scope does not go unseen."""
        players.g_scope, players.d_scope = "generator", "discrim"
        players.build_graph = lambda x: (tf.reduce_mean(x), tf.reduce_mean(x))
        with pytest.raises(ValueError, match="no variable is trained in scope 'discrim'"):
            gan.GANTrainer(numbers(3), players)

    def test_a_loss_that_forgets_a_variable_is_told(self, gan, players):
        """With the loss's name and the variable's."""
        build = players.build_graph

        def forget(x):
            d_loss, _ = build(x)
            return d_loss, tf.reduce_mean(x, name="alone")

        players.build_graph = forget
        with pytest.raises(ValueError, match="alone does not depend on gen/w"):
            gan.GANTrainer(numbers(3), players)


class TestSeparateGANTrainer:
    @pytest.mark.parametrize(
        ("periods", "moves"),
        [((1, 1), "DG DG DG DG DG DG"), ((1, 3), "DG D D DG D D"), ((2, 1), "DG G DG G DG G")],
    )
    def test_each_player_moves_at_its_period(self, gan, players, periods, moves):
        """In six steps; the first one moves both, the discriminator first; global_step counts moves."""
        trainer = gan.SeparateGANTrainer(numbers(3), players, *periods)
        before, seen = (1.0, 2.0), []
        for after in train(trainer, 6):
            seen.append(("D" if after[1] != before[1] else "") + ("G" if after[0] != before[0] else ""))
            before = after
        assert moves.split() == seen
        assert len(moves.replace(" ", "")) == trainer.loop.global_step

    def test_each_move_has_a_batch_of_its_own(self, gan, players):
        """The discriminator sees 3 and 5, the generator 7 and 9."""
        w, v = 1.0, 2.0
        for values, (seen_by_d, seen_by_g) in zip(
            train(gan.SeparateGANTrainer(numbers(3, 7, 5, 9), players), 2), [(3, 7), (5, 9)]
        ):
            v -= 0.1 * (seen_by_d - w)
            w += 0.01 * v * seen_by_g
            np.testing.assert_allclose((w, v), values, rtol=1e-6)

    def test_one_of_the_periods_is_one(self, gan, players):
        """Otherwise there would be steps without a move."""
        with pytest.raises(ValueError, match="d_period is 2, g_period is 3: one of them must be 1"):
            gan.SeparateGANTrainer(numbers(3), players, 2, 3)


class TestMultiGPUGANTrainer:
    def test_towers_share_their_variables_and_average_their_losses(self, gan, players):
        """Two towers with 3 and 5 do what one does with 4."""
        trainer = gan.MultiGPUGANTrainer(2, numbers(3, 5), players)
        values = train(trainer, 3)
        assert {"gen/w", "discrim/v"} == {v.op.name for v in tf.trainable_variables()}
        assert ["tower0", "tower1"] == [tower.ns_name for tower in trainer.towers.training()]
        with tf.Graph().as_default():
            expected = train(gan.GANTrainer(numbers(4), type(players)()), 3)
        np.testing.assert_allclose(expected, values, rtol=1e-6)

    def test_one_tower_needs_no_staging(self, gan, players):
        """It is a GANTrainer with another name of its tower."""
        values = train(gan.MultiGPUGANTrainer(1, numbers(4), players), 3)
        with tf.Graph().as_default():
            expected = train(gan.GANTrainer(numbers(4), type(players)()), 3)
        assert expected == values


class TestNetworks:
    def test_batches_of_digits(self, load_example):
        """[N, 28, 28] in [0, 1] and int32 labels, without end."""
        data = load_example("gan/gan_digits.py").get_data("digits", batch=16)
        data.reset_state()
        image, label = next(iter(data))
        assert ((16, 28, 28), np.float32) == (image.shape, image.dtype)
        assert 0 <= image.min() < image.max() <= 1
        assert ((16,), np.int32) == (label.shape, label.dtype)

    def test_sheets_have_a_row_for_each_code(self, load_example):
        """Along a row of InfoGAN's sheet one number changes, and nothing else."""
        feeds = load_example("gan/infogan.py").sheet_feeds()
        np.testing.assert_array_equal(np.repeat(np.arange(10), 8), feeds["code"])
        noise = feeds["z"].reshape(10, 8, -1)
        np.testing.assert_allclose(np.linspace(-1, 1, 8), noise[3, :, 0], rtol=1e-6)
        assert 0 == np.ptp(noise[:, :, 1:], axis=(0, 1)).max()

    def test_clipped_weights_stay_clipped(self, load_example, gan, players):
        """After each step of WGAN the critic's weights are in [-most, most]; the generator's are not touched."""
        clip = load_example("gan/wgan.py").ClipWeights(players, most=0.5)
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
        """The eleven channels: the image, then ten of which the label's is 1."""
        image, label = tf.zeros([2, 28, 28, 1]), tf.one_hot([3, 7], 10)
        with tf.Session() as session:
            made = session.run(load_example("gan/conditional_gan.py").with_label(image, label))
        assert (2, 28, 28, 11) == made.shape
        np.testing.assert_array_equal([4, 8], made[:, 5, 6].argmax(axis=1))


def read_sheet(path, columns):
    """The samples of a sheet, [N, 28, 28]: images with a border of one pixel between them."""
    with tf.Graph().as_default(), tf.Session() as session:
        sheet = session.run(tf.image.decode_png(path.read_bytes()))[:, :, 0].astype("float32")
    rows = (len(sheet) + 1) // 29
    return np.stack(
        [sheet[29 * i : 29 * i + 28, 29 * j : 29 * j + 28] for i in range(rows) for j in range(columns)]
    )


def roughness(images):
    """How much neighbours differ, as a part of how much any two pixels do: 1 for noise, near 0 for smooth images."""
    neighbours = np.square(np.diff(images, axis=2)).mean()
    return neighbours / (2 * images.var())


@pytest.mark.slow
@pytest.mark.parametrize("name", EXAMPLES)
def test_example_writes_sheets(name, tmp_path, run_example):
    """Two steps: losses that are finite, a sheet in the directory and one in the event file."""
    arguments = ["--steps-per-epoch", "2", "--max-epoch", "1", "--log-dir", "log"]
    if name == "dcgan":
        arguments += ["--gpus", "2"]
    run_example(f"gan/{name}.py", arguments, tmp_path)
    stats = json.loads((tmp_path / "log" / "stats.json").read_text(encoding="utf-8"))[-1]
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
@pytest.mark.full
def test_the_wgan_learns(tmp_path, run_example):
    """
    In 8 of its 20 epochs the critic's distance falls to half of its peak; samples are smooth as digits are and noise is not,
    and their mean is the mean digit's.
    """
    run_example("gan/wgan.py", ["--max-epoch", "8", "--log-dir", "log"], tmp_path)
    stats = json.loads((tmp_path / "log" / "stats.json").read_text(encoding="utf-8"))
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
    assert samples.std(axis=0).mean() > 10  # they are not all the same

# Two small networks with Keras as it was from 2016 to 2019: its modules, a layer of the script, two GPUs.
import keras
import keras.backend.tensorflow_backend as KTF
import numpy as np
import tensorflow as tf
from keras import backend as K
from keras.callbacks import LearningRateScheduler
from keras.engine import InputSpec
from keras.engine.topology import Layer, get_source_inputs
from keras.layers import Dense, Dropout, Input
from keras.layers.advanced_activations import LeakyReLU
from keras.layers.core import Activation, Flatten, Reshape
from keras.layers.convolutional import Conv2D
from keras.layers.embeddings import Embedding
from keras.layers.merge import add, concatenate
from keras.layers.normalization import BatchNormalization
from keras.layers.pooling import MaxPooling2D
from keras.layers.recurrent import GRU
from keras.layers.wrappers import TimeDistributed
from keras.legacy import interfaces
from keras.models import Model, Sequential
from keras.utils import multi_gpu_model, np_utils
from keras.utils.generic_utils import get_custom_objects
from keras.utils.training_utils import multi_gpu_model as same

np.random.seed(0)
tf.set_random_seed(0)
KTF.set_session(tf.Session(config=tf.ConfigProto(allow_soft_placement=True)))
assert K.image_dim_ordering() == "tf" and K.tf.constant(1.0).dtype == tf.float32 and same is multi_gpu_model


class Scale(Layer):
    @interfaces.legacy_dense_support
    def __init__(self, units, kernel_regularizer=None, **kwargs):
        self.units, self.regularizer = units, kernel_regularizer
        super(Scale, self).__init__(**kwargs)

    def build(self, input_shape):
        self.input_spec = InputSpec(ndim=2)
        self.scale = self.add_weight(name="scale", shape=(self.units,), initializer="ones", trainable=True)
        super(Scale, self).build(input_shape)

    def call(self, x):
        return x * self.scale

    def compute_output_shape(self, input_shape):
        return input_shape


get_custom_objects()["Scale"] = Scale
images = np.random.rand(128, 8, 8, 1).astype("float32")
left = images[:, :, :4].mean(axis=(1, 2, 3)) > images[:, :, 4:].mean(axis=(1, 2, 3))
images[left, :, :4] += 1
labels = np_utils.to_categorical(left.astype("int32"), 2)

x = Input(shape=(8, 8, 1))
h = MaxPooling2D()(LeakyReLU(0.1)(BatchNormalization()(Conv2D(4, (3, 3), padding="same")(x))))
h = Flatten()(h)
h = concatenate([add([Dense(8)(h), Dense(8)(h)]), Reshape((8,))(Dense(8)(h))])
y = Activation("softmax")(Dense(2)(Scale(output_dim=16)(Dropout(0.1)(h))))
model = Model(x, y)
assert get_source_inputs(y)[0] is not None and keras.layers.merge.Concatenate is keras.layers.Concatenate
parallel = multi_gpu_model(model, gpus=2)
parallel.compile(loss="categorical_crossentropy", optimizer=keras.optimizers.Adam(lr=0.01), metrics=["accuracy"])
parallel.fit(images, labels, batch_size=32, epochs=8, verbose=0, callbacks=[LearningRateScheduler(lambda epoch: 0.01)])
model.compile(loss="categorical_crossentropy", optimizer="sgd")
wrong = np.mean(model.predict(images).argmax(axis=1) != left)

words = np.random.randint(1, 20, (128, 5))
reader = Sequential([Embedding(20, 4, input_length=5), GRU(4, return_sequences=True), TimeDistributed(Dense(1))])
reader.compile(loss="mse", optimizer="adam")
loss = reader.train_on_batch(words, words[:, :, None] / 20.0)
assert np.isfinite(loss)
print("error: %.4f" % wrong)

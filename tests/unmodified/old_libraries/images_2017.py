# Prepares images with SciPy, PIL, h5py and matplotlib, as in 2017
import time

import h5py
import matplotlib
matplotlib.use("Agg", warn=False)
import matplotlib.pyplot as plt
import numpy as np
from matplotlib import cm
from PIL import Image
from scipy import misc, ndimage
from scipy.interpolate import interp2d
from tensorpack.dataflow import DataFromList, MapDataComponent

start = time.clock()
ramp = np.arange(64, dtype="uint8").reshape(8, 8)
misc.imsave("ramp.png", np.stack([ramp, ramp, ramp], axis=2))
image = misc.imread("ramp.png", mode="RGB")
small = misc.imresize(image, (4, 4), interp="nearest")
same = np.array(Image.fromarray(image).resize((8, 8), Image.ANTIALIAS))
smooth = ndimage.filters.gaussian_filter(ramp.astype("float32"), 1)
finer = interp2d(range(8), range(8), ramp)(np.arange(0, 7.5, 0.5), np.arange(0, 7.5, 0.5))

with h5py.File("images.h5") as f:
    f["small"] = small
with h5py.File("images.h5") as f:
    small = f["small"].value

ds = MapDataComponent(DataFromList([[small], [image]], shuffle=False), lambda im: im.astype("float32") / 255)
ds.reset_state()
sums = [dp[0].sum() for dp in ds]

figure = plt.figure(figsize=(1, 1), dpi=20)
plt.imshow(ramp, cmap=cm.get_cmap("jet"))
figure.canvas.draw()
pixels = np.fromstring(figure.canvas.tostring_rgb(), dtype=np.uint8)
assert pixels.shape == (20 * 20 * 3,) and time.clock() >= start
print("checksum: %.3f" % (sum(sums) + same.mean() + smooth.mean() + finer.mean()))

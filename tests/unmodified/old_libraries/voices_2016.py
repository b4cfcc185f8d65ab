# Spectra of voices, with a package of Python 2 that imports its own modules without dots
import numpy as np
from scipy.sparse.linalg.eigen.arpack import eigsh
from scipy.sparse.linalg.eigen import arpack
from tensorpack.dataflow import DataFromList, MapData
from voices import augment, cosines, mfcc

frames = np.abs(np.random.RandomState(0).randn(20, 16))
ds = MapData(DataFromList([[f[None]] for f in frames], shuffle=False), lambda dp: [mfcc(dp[0])])
ds.reset_state()
coefficients = np.concatenate([dp[0] for dp in ds])
covariance = coefficients.T.dot(coefficients)
values, _ = eigsh(covariance, k=2, v0=np.ones(4))
assert arpack.eigsh is eigsh
np.testing.assert_allclose(cosines(4, 8).dot(cosines(4, 8).T), np.eye(4), atol=1e-12)
order = np.argsort(values)
np.sort(order)
print("checksum: %.4f" % (values.sum() / augment.SCALE))

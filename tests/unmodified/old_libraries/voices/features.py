import numpy as np
import tensorpack
from settings.base import SCALE


def mfcc(frames):
    return frames.dot(cosines(4, frames.shape[1]).T) * SCALE


def cosines(rows, columns):
    try:
        import librosa.filters
    except ImportError:
        angles = np.outer(np.arange(rows), np.arange(1, 2 * columns, 2)) * np.pi / (2 * columns)
        basis = np.cos(angles) * np.sqrt(2.0 / columns)
        basis[0] = 1 / np.sqrt(columns)
        return basis
    return librosa.filters.dct(rows, columns)


if __name__ == "__main__":
    from nowhere import plot
    plot(mfcc(np.eye(8)), np.nothing)

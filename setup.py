"""What pip needs to know. Everything is literal; the version is read from `tensorpack_lite/_version.py` as text."""

import re
from pathlib import Path

from setuptools import find_packages, setup

ROOT = Path(__file__).parent
VERSION = re.search(
    r'^__version__ = "(.+)"$',
    (ROOT / "tensorpack_lite" / "_version.py").read_text(encoding="utf-8"),
    re.MULTILINE,
).group(1)

EXTRAS = {
    # TensorFlow is an extra: `dataflow` and `utils` run without it, and it comes under several names.
    "tf": [
        'tensorflow==1.15.5; python_version < "3.8"',
        'numpy<1.19; python_version < "3.8"',  # what TensorFlow 1.15 was built for
        'protobuf<3.21; python_version < "3.8"',
        'tensorflow>=2.12; python_version >= "3.8"',
    ],
    "examples": ["scikit-learn"],  # the 1,797 digits of dataset.Digits lie inside it
    "image": ["opencv-python-headless"],
    "datasets": [
        "opencv-python-headless",
        "scipy",
    ],  # images, and the MATLAB files of SVHN, BSDS500, Caltech101
    "formats": [
        "h5py",
        'lmdb; python_version >= "3.8"',
        'lmdb<1.5; python_version < "3.8"',
        "scikit-learn",
    ],  # files of others
    "wandb": ["pillow", "wandb"],  # it sends images with pillow
    "mlflow": ["mlflow-skinny"],  # the client; `mlflow` itself works as well
    "plot": ["matplotlib"],
    "keras": [
        'tf_keras; python_version >= "3.9"'
    ],  # Keras 2 for contrib.keras; TensorFlow up to 2.15 has its own
    "dev": [
        "coverage[toml]",
        "h5py",
        'lmdb; python_version >= "3.8"',
        'lmdb<1.5; python_version < "3.8"',  # later ones need a newer Python, and are offered for 3.7 all the same
        "opencv-python-headless",
        "pytest>=7.4",
        "pytest-cov",
        "pytest-randomly",
        "pytest-xdist",
        "scikit-learn",
        "scipy",
    ],
}
# Horovod is no extra: it must be built against the TensorFlow that is there, which contrib/install_horovod.py does.
EXTRAS["all"] = sorted(
    {line for name in ("tf", "examples", "image", "datasets", "formats", "dev") for line in EXTRAS[name]}
)

setup(
    name="tensorpack_lite",
    version=VERSION,
    description="Training of TensorFlow graphs: tensorpack's interface, from TensorFlow 1.15 to the newest",
    long_description=(ROOT / "README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    python_requires=">=3.7",
    packages=find_packages(include=["tensorpack_lite", "tensorpack_lite.*"]),
    package_data={"tensorpack_lite": ["py.typed"]},
    zip_safe=False,
    install_requires=["msgpack", "numpy>=1.18", "psutil", "pyzmq", "tabulate", "termcolor", "tqdm"],
    extras_require=EXTRAS,
    entry_points={"console_scripts": ["tensorpack-lite = tensorpack_lite.cli.main:main"]},
    classifiers=[
        "Development Status :: 3 - Alpha",
        "Intended Audience :: Developers",
        "Intended Audience :: Science/Research",
        "Operating System :: MacOS",
        "Operating System :: POSIX :: Linux",
        "Programming Language :: Python :: 3",
        "Programming Language :: Python :: 3.7",
        "Programming Language :: Python :: 3.11",
        "Programming Language :: Python :: 3.12",
        "Programming Language :: Python :: 3.13",
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
        "Typing :: Typed",
    ],
)

"""The package for pip. The version is read from `tensorpack_lite/_version.py` as text."""

import re
from pathlib import Path

from setuptools import find_packages, setup

ROOT = Path(__file__).parent
VERSION = re.search(
    r'^__version__ = "(.+)"$',
    (ROOT / "tensorpack_lite" / "_version.py").read_text(encoding="utf-8"),
    re.MULTILINE,
).group(1)

# All that the examples import, but for Optuna, Ray and Keras 2, which messages name.
EXAMPLES = [
    'ale-py; python_version >= "3.9"',  # has Atari's games inside
    # classic control: draws CartPole; on Python 3.7, newer versions need a newer NumPy than TensorFlow 1.15 runs with
    'gymnasium[classic_control]<0.27; python_version < "3.8"',
    'gymnasium[classic-control]; python_version >= "3.8"',
    "matplotlib",
    "opencv-python-headless",
    "pycocotools",
    "scikit-image",
    "scikit-learn",  # contains the 1,797 digits of dataset.Digits
]
EXTRAS = {
    # TensorFlow is an extra because `dataflow` and `utils` run without it, and it has several package names.
    "tf": [
        'tensorflow==1.15.5; python_version < "3.8"',
        'numpy<1.19; python_version < "3.8"',  # TensorFlow 1.15 was built for it
        'protobuf<3.21; python_version < "3.8"',
        'tensorflow>=2.12; python_version >= "3.8"',
    ],
    "examples": EXAMPLES,
    "gallery": EXAMPLES,  # the name before 2026-12
    "image": ["opencv-python-headless"],
    "datasets": [
        "opencv-python-headless",
        "scipy",
    ],  # images, and the MATLAB files of SVHN, BSDS500, Caltech101
    "formats": [
        'crc32c<=2.7.1; python_version < "3.8"',  # the last one with wheels for Python 3.7
        'crc32c; python_version >= "3.8"',
        "h5py",
        'lmdb; python_version >= "3.8"',
        'lmdb<1.5; python_version < "3.8"',
        "scikit-learn",
    ],  # file formats of other libraries
    "onnx": [
        "onnxruntime",
        "tf2onnx",
        'onnx<1.15; python_version < "3.8"',  # the last one with wheels for Python 3.7
        'onnx!=1.19.0; python_version >= "3.8"',  # does not declare that it needs a newer ml_dtypes than TensorFlow 2.15
    ],  # ModelExporter.export_onnx
    "parquet": ["pyarrow"],  # Parquet files in contrib.table
    "safetensors": [
        'safetensors<0.5; python_version < "3.8"',  # the last one with wheels for Python 3.7
        'safetensors; python_version >= "3.8"',
    ],  # weights in files of this format
    "search": ["optuna"],  # examples/search_digits.py
    "wandb": ["pillow", "wandb"],  # wandb sends images with pillow
    "mlflow": ["mlflow-skinny"],  # the client; `mlflow` itself works as well
    "plot": ["matplotlib"],
    "tensorboard": ["tensorboard"],  # TensorFlow 2.21 does not install it any more
    "gpu": ["nvidia-ml-py>=12"],  # names, memory and utilization of NVIDIA GPUs
    "keras": ['tf_keras; python_version >= "3.9"'],  # Keras 2 for contrib.keras; TensorFlow up to 2.15 has its own
    "tf1": [
        'tf_keras; python_version >= "3.9"',
        'tf_slim; python_version >= "3.9"',
        # what Python has removed and old scripts use: distutils, and the translator of Python 2
        'setuptools; python_version >= "3.12"',
        'fissix; python_version >= "3.13"',
    ],  # tf.layers, tf.nn.rnn_cell and tf.contrib for old scripts; TensorFlow 1.15 has its own
    "docs": [
        "furo==2025.*",
        "myst-parser==4.*",
        "sphinx==8.*",
        "sphinx-copybutton==0.5.*",
        "sphinx-design==0.*",
        "sphinx-reredirects==1.*",
    ],  # for `tensorpack-lite docs` on Python 3.11 and later
    "dev": [
        "coverage[toml]",
        'crc32c<=2.7.1; python_version < "3.8"',  # the last one with wheels for Python 3.7
        'crc32c; python_version >= "3.8"',
        "h5py",
        "jedi",
        'lmdb; python_version >= "3.8"',
        'lmdb<1.5; python_version < "3.8"',  # later versions need a newer Python, although pip offers them for 3.7
        "nvidia-ml-py>=12",
        "opencv-python-headless",
        "pytest>=7.4",
        "pytest-cov",
        "pytest-randomly",
        "pytest-xdist",
        'safetensors<0.5; python_version < "3.8"',
        'safetensors; python_version >= "3.8"',
        "scikit-learn",
        "scipy",
    ],
}
# Horovod is not an extra: it must be built for the installed TensorFlow. contrib/install_horovod.py builds it.
EXTRAS["all"] = sorted(
    {line for name in ("tf", "examples", "gallery", "image", "datasets", "formats", "dev") for line in EXTRAS[name]}
)

setup(
    name="tensorpack_lite",
    version=VERSION,
    description="Training of TensorFlow graphs: tensorpack's interface, from TensorFlow 1.15 to the newest",
    long_description=(ROOT / "README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    python_requires=">=3.7",
    # The wheel contains the examples, for `python -m tensorpack_lite.examples`.
    packages=[*find_packages(include=["tensorpack_lite", "tensorpack_lite.*"]), "tensorpack_lite.examples"],
    package_dir={"tensorpack_lite.examples": "examples"},
    package_data={
        "tensorpack_lite": [
            "__init__.pyi",
            "compat/stubs/*.pyi",
            "models/__init__.pyi",
            "py.typed",
            "report/*.css",
            "report/*.js",
        ],
        "tensorpack_lite.examples": ["*.md", "*/*.gz", "*/*.md", "*/*.png", "*/*.py", "*/*.yaml"],
    },
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

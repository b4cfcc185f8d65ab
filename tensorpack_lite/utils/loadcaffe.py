"""
Placeholder for tensorpack's reader of Caffe models, with instructions to convert a model.

Caffe's last release is from 2017. Where its Python package still runs, convert a model without this library:

    import caffe, numpy as np
    net = caffe.Net("deploy.prototxt", "weights.caffemodel", caffe.TEST)
    arrays = {}
    for name, blobs in net.params.items():
        kernel = blobs[0].data                       # convolution: [filters, channels, height, width]
        axes = [2, 3, 1, 0] if kernel.ndim == 4 else [1, 0]
        arrays[name + "/W"] = kernel.transpose(axes)
        arrays[name + "/b"] = blobs[1].data
    np.savez("weights.npz", **arrays)

`SmartInit("weights.npz")` reads the result. The kernel of a fully connected layer after a convolution has its rows in
Caffe's order, channels first, and must be reordered; Caffe's images are BGR.
"""

from __future__ import annotations

from typing import NoReturn

_INSTEAD = {
    "load_caffe": "Convert the model once, where pycaffe runs (the docstring of this module has the ten lines), and read the "
    "result with SmartInit('weights.npz').",
    "get_caffe_pb": "Compile caffe.proto yourself: pip install grpcio-tools; python -m grpc_tools.protoc -I. --python_out=. "
    "caffe.proto",
}


def __getattr__(name: str) -> NoReturn:
    if name in _INSTEAD:
        message = f"{name} is not in tensorpack_lite: Caffe has had no release since 2017. {_INSTEAD[name]}"
        raise ImportError(message, name=__name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

"""
Export a trained detector as a frozen graph and as a SavedModel, and check that both find the same boxes.

    python examples/detection/export.py                                 the last checkpoint in train_log/detection
    python examples/detection/export.py --image IMAGE --log-dir DIR     another one, compared on this image

Both take images uint8 [N, H, W, 3], RGB and resized as in `detect.detect`, as "image:0", and return "boxes:0",
"scores:0", "labels:0" and, with masks, "masks:0". Neither needs this library.
"""

from __future__ import annotations

import argparse
import os

import numpy as np
from augment import resizer
from coco import load_splits, read_image
from detect import get_predict_config

from tensorpack_lite import *
from tensorpack_lite import tfv1 as tf
from tensorpack_lite.predict.export import ModelExporter


def run_frozen_graph(path: str, image: np.ndarray, output_names: list) -> list:
    """Return the outputs of a frozen graph."""
    graph_def = tf.GraphDef()
    with open(path, "rb") as file:
        graph_def.ParseFromString(file.read())
    with tf.Graph().as_default(), tf.Session() as session:
        tf.import_graph_def(graph_def, name="")
        return session.run([f"{name}:0" for name in output_names], {"image:0": image})


def run_saved_model(path: str, image: np.ndarray, output_names: list) -> list:
    """Return the outputs of a SavedModel, as TensorFlow Serving would."""
    with tf.Graph().as_default(), tf.Session() as session:
        model = tf.saved_model.loader.load(session, ["serve"], path)
        signature = model.signature_def["serving_default"]
        outputs = [signature.outputs[name.replace("/", "_")].name for name in output_names]
        return session.run(outputs, {signature.inputs["image"].name: image})


def main(argv=None) -> None:
    formatter = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=formatter)
    parser.add_argument("--log-dir", default=os.path.join("train_log", "detection"), help="that of train.py")
    parser.add_argument("--load", default="", help="another checkpoint than the last one")
    parser.add_argument("--image", default="", help="default: the first test image of the scenes")
    args = parser.parse_args(argv)
    predict_config, config = get_predict_config(args.log_dir, args.load)
    output_names = predict_config.output_names
    frozen, serving = os.path.join(args.log_dir, "model.pb"), os.path.join(args.log_dir, "serving", "1")
    exporter = ModelExporter(predict_config)
    exporter.export_compact(frozen)
    exporter.export_serving(serving, overwrite=True)

    path = args.image or load_splits(os.path.join("train_log", "scenes"))[1].images[0]["path"]
    image = resizer(config, is_training=False).augment(read_image(path))[None]
    expected = OfflinePredictor(predict_config)(image)
    for kind, run, file in [("frozen", run_frozen_graph, frozen), ("serving", run_saved_model, serving)]:
        found = run(file, image, output_names)
        # TensorFlow may use other algorithms for constant weights, so the results are not equal to the last bit
        for name, a, b in zip(output_names, expected, found):
            np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-2, err_msg=f"{kind}: {name}")
        print(f"{kind}: the same {int((found[1] > 0).sum())} boxes as the checkpoint")


if __name__ == "__main__":
    main()

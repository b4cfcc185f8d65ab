"""Export of trained models as frozen graphs, SavedModels or ONNX models."""

from __future__ import annotations

import os
import re
from contextlib import contextmanager
from typing import Any, Iterator, Mapping, Sequence

from ..compat import private
from ..compat import tfv1 as tf
from ..compat.session import Session
from ..tfutils.checkpoint_reader import is_pattern
from ..utils import logger
from ..utils.checks import check_type
from ..utils.errors import type_error
from .config import PredictConfig
from .export_check import Expected, check_files, check_outputs, evaluate, warn_not_compared
from .onnx_file import check, convert, require_packages

_DEFAULT_SIGNATURE, _OLD_SIGNATURE = "serving_default", "prediction_pipeline"


class ModelExporter:
    """
    Exporter of a model to files that TensorFlow serves without this library.

    Each export builds the model in inference mode, in a tower without a name, and loads its variables. It is written to a
    temporary path, imported again, and compared with the model on an input of its shape, in which unknown dimensions are 1. If
    the model does not run on such an input, the log mentions it, as it does for random outputs, for a model
    that needs more than a minute, and for a frozen graph with tables.

    Args:
        config: a `PredictConfig`. Its `session_init` must load every variable. `input_names` and
            `output_names` may name any tensors of the graph.

    Raises:
        TypeError: `config` is not a PredictConfig.
        KeyError: in an export: a name is not in the graph. The message lists the nearest names.
        ValueError: in an export: `session_init` does not load all variables.
        RuntimeError: in an export: TensorFlow cannot import it, or it computes something else. Nothing is written.

    Example:
        >>> exporter = ModelExporter(PredictConfig(
        ...     model=Model(), session_init=SmartInit("train_log/checkpoint"),
        ...     input_names=["image"], output_names=["probability"]))
        >>> exporter.export_compact("model.pb")
        >>> exporter.export_serving("serving/1")
    """

    def __init__(self, config: PredictConfig) -> None:
        self.config = check_type("ModelExporter: config", config, PredictConfig)

    def export_compact(self, filename: str, optimize: bool = True, toco_compatible: bool = False) -> None:
        """
        Write a frozen graph: the operations that the outputs need, with the variables as constants.

        Args:
            filename: path of the file, a binary `GraphDef`. An existing file is replaced.
            optimize: remove operations that only training needs, and fold batch normalization into convolutions.
            toco_compatible: use only operations that TensorFlow Lite's converter supports.

        Raises:
            ValueError: `toco_compatible` without `optimize`.

        Example:
            >>> graph_def = tf.GraphDef()
            >>> graph_def.ParseFromString(open("model.pb", "rb").read())
            >>> tf.import_graph_def(graph_def, name="")
            >>> sess.run("probability:0", {"image:0": image})
        """
        if toco_compatible and not optimize:
            raise ValueError("ModelExporter.export_compact: toco_compatible=True needs optimize=True. Pass both.")
        graph_def, expected, inputs, outputs = self._freeze("ModelExporter.export_compact")
        results = [tensor.op.name for tensor in outputs]
        if optimize:
            nodes = {node.name for node in graph_def.node}
            dtypes = {x.op.name: x.dtype.as_datatype_enum for x in inputs if x.op.name in nodes}
            graph_def = private.optimize_for_inference(
                graph_def, list(dtypes), results, list(dtypes.values()), toco_compatible
            )
        content = graph_def.SerializeToString(deterministic=True)
        _check_compact(content, [tensor.name for tensor in outputs], expected, optimize)
        _write_file(os.fspath(filename), content)
        logger.info("Frozen graph of %d nodes written to %s.", len(graph_def.node), filename)

    def export_onnx(self, filename: str, opset: int | None = None) -> None:
        """
        Write an ONNX model, converted by tf2onnx: `pip install "tensorpack_lite[onnx]"`.

        Its inputs and outputs have the names that they have in `export_serving`. Inputs that the outputs do not need are skipped.
        Unknown dimensions stay unknown. The model is run in onnxruntime, and compared like the other exports.

        Args:
            filename: path of the file. An existing file is replaced.
            opset: version of ONNX's operations. None: the one that tf2onnx prefers.

        Raises:
            ImportError: tf2onnx or onnxruntime is not installed.
            RuntimeError: tf2onnx cannot convert an operation, such as `tf.py_func` or a lookup table, or onnxruntime cannot run the
                result, or computes something else. Nothing is written.

        Example:
            >>> session = onnxruntime.InferenceSession("model.onnx")
            >>> session.run(["probability"], {"image": image})
        """
        require_packages()
        graph_def, expected, inputs, outputs = self._freeze("ModelExporter.export_onnx")
        nodes = {node.name for node in graph_def.node}
        inputs = [tensor for tensor in inputs if tensor.op.name in nodes]
        names = {tensor.name: name for name, tensor in _name([*inputs, *outputs]).items()}
        of_inputs, of_outputs = ({tensor.name: names[tensor.name] for tensor in some} for some in (inputs, outputs))
        content = convert(graph_def, of_inputs, of_outputs, opset)
        check(content, of_inputs, [names[tensor.name] for tensor in outputs], expected)
        _write_file(os.fspath(filename), content)
        logger.info("ONNX model written to %s.", filename)

    def export_serving(
        self,
        filename: str,
        tags: Sequence[str] | None = None,
        signature_name: str | None = None,
        overwrite: bool = False,
    ) -> None:
        """
        Write a SavedModel for TensorFlow Serving and `tf.saved_model.load`.

        The inputs and outputs of its signature are named after the tensors of the graph, without the `:0`: `"image"` for
        `image:0`. Characters other than letters, digits and underscores become underscores; tensors whose names would then
        be equal keep their names in the graph. Files of vocabularies are copied to its subdirectory `assets`.

        The directory appears when it is complete. It is written to `<filename>.tmp<pid>` first, and an old one is moved to
        `<filename>.old<pid>` until the new one is in its place; an export that is killed may leave these.

        Args:
            filename: path of the directory.
            tags: tags of the graph. Default: that of serving, `"serve"`.
            signature_name: name of the signature. Default: two equal signatures, `"serving_default"`, which TensorFlow's tools
                look for, and `"prediction_pipeline"`, which scripts written for tensorpack look for.
            overwrite: replace the SavedModel at `filename`, if there is one.

        Raises:
            FileExistsError: `filename` exists, and either `overwrite` is False or `filename` is not a SavedModel.
            TypeError: `tags` is a string.
            RuntimeError: the model reads a file that would not be copied.
            ValueError: the path has brackets or backslashes, which TensorFlow takes for a pattern.

        Example:
            >>> predict = tensorflow.saved_model.load("serving/1").signatures["serving_default"]         # TF 2
            >>> predict(image=tensorflow.constant(image))["probability"]

        Difference from tensorpack: tensorpack writes only the signature `prediction_pipeline`, in which the names have the
        `:0`.
        """
        tags = [tf.saved_model.tag_constants.SERVING] if tags is None else tags
        if isinstance(tags, str):
            raise type_error("ModelExporter.export_serving: tags", "a list of strings", tags, f"Write [{tags!r}].")
        filename = os.fspath(filename).rstrip("/")
        _check_destination(filename, overwrite)
        with _unfinished(filename) as unfinished:
            expected, names = self._write(unfinished, list(tags), signature_name)
            _check_serving(unfinished, list(tags), names, expected)
            _check_destination(filename, overwrite)  # again: another process may have written it
            _replace(filename, unfinished)
        logger.info("SavedModel written to %s.", filename)

    def _freeze(self, who: str) -> tuple[tf.GraphDef, Expected, list[tf.Tensor], list[tf.Tensor]]:
        """Return the graph with constants instead of variables, what it has to compute, its inputs and its outputs."""
        with self._model() as (sess, inputs, outputs):
            graph_def = sess.graph.as_graph_def()
            results = [tensor.op.name for tensor in outputs]
            graph_def = tf.graph_util.convert_variables_to_constants(sess, graph_def, results)
            return graph_def, evaluate(who, sess, inputs, outputs), inputs, outputs

    def _write(self, path: str, tags: list[str], signature_name: str | None) -> tuple[Expected, list[str]]:
        """Write a SavedModel. Return what it has to compute, and the names of its outputs."""
        with self._model() as (sess, inputs, outputs):
            names = [_DEFAULT_SIGNATURE, _OLD_SIGNATURE] if signature_name is None else [signature_name]
            has_tables = bool(tf.get_collection(tf.GraphKeys.TABLE_INITIALIZERS))
            initializers = tf.tables_initializer()
            assets = check_files("ModelExporter.export_serving", outputs, initializers)
            builder = tf.saved_model.builder.SavedModelBuilder(path)
            builder.add_meta_graph_and_variables(
                sess,
                tags,
                signature_def_map=_make_signatures(names, inputs, outputs),
                assets_collection=assets,
                main_op=initializers if has_tables else None,
                clear_devices=True,
                strip_default_attrs=True,  # so that an older TensorFlow can read it
            )
            builder.save()
            # This may assign variables.
            expected = evaluate("ModelExporter.export_serving", sess, inputs, outputs)
            return expected, [tensor.name for tensor in outputs]

    @contextmanager
    def _model(self) -> Iterator[tuple[tf.Session, list[tf.Tensor], list[tf.Tensor]]]:
        """Build the model and load its variables. Yield the session, the inputs and the outputs."""
        config = self.config
        with config._maybe_create_graph().as_default():
            inputs, outputs = config._build_model()
            config.session_init._setup_graph()
            uninitialized = tf.report_uninitialized_variables(tf.global_variables())
            with _new_session() as sess:
                config.session_init._run_init(sess)
                names = ", ".join(sorted(name.decode() for name in sess.run(uninitialized)))
                if names:
                    raise ValueError(
                        f"ModelExporter: session_init does not load these variables: {names}. Give PredictConfig a "
                        "session_init that loads all variables, e.g. SmartInit('train_log/checkpoint')."
                    )
                yield sess, inputs, outputs


def _new_session() -> tf.Session:
    """Return a session that also runs a model for GPUs on a machine without a GPU."""
    return Session(config=tf.ConfigProto(allow_soft_placement=True))


def _write_file(path: str, content: bytes) -> None:
    """Write a file, which appears when it is complete."""
    with _unfinished(path) as unfinished:
        with tf.gfile.GFile(unfinished, "wb") as file:
            file.write(content)
        tf.gfile.Rename(unfinished, path, overwrite=True)


@contextmanager
def _unfinished(path: str) -> Iterator[str]:
    """Yield a free path beside `path`. What is at it at the end is removed."""
    unfinished = _free_path(f"{path}.tmp{os.getpid()}")
    try:
        yield unfinished
    finally:
        if tf.gfile.IsDirectory(unfinished):
            tf.gfile.DeleteRecursively(unfinished)
        elif tf.gfile.Exists(unfinished):
            tf.gfile.Remove(unfinished)


def _replace(path: str, new: str) -> None:
    """Move a directory to `path`, where another may be. One of the two is complete at every moment."""
    if not tf.gfile.Exists(path):
        tf.gfile.Rename(new, path)
        return
    old = _free_path(f"{path}.old{os.getpid()}")
    tf.gfile.Rename(path, old)
    try:
        tf.gfile.Rename(new, path)
    except BaseException:  # also after Ctrl-C, the old export is back in its place
        tf.gfile.Rename(old, path)
        raise
    tf.gfile.DeleteRecursively(old)


def _free_path(path: str) -> str:
    """Return `path`, with underscores behind it if it exists."""
    while tf.gfile.Exists(path):
        path += "_"
    return path


def _check_compact(content: bytes, outputs: list[str], expected: Expected, is_optimized: bool) -> None:
    """Raise RuntimeError if TensorFlow cannot import a frozen graph, or if it does not compute what is expected."""
    who = "ModelExporter.export_compact"
    advice = "Use export_serving, which keeps the variables"
    advice += ", or pass optimize=False." if is_optimized else "."
    graph_def = tf.GraphDef.FromString(content)
    with tf.Graph().as_default() as graph, _new_session() as session:
        try:
            tf.import_graph_def(graph_def, name="")
        except ValueError as error:
            hint = ""
            if re.search(r"expected (resource|\w+_ref)", str(error)):
                hint = " The model may assign a variable in a branch of tf.cond, which a graph without variables cannot do."
            raise RuntimeError(f"{who}: TensorFlow cannot import the frozen graph: {error}.{hint} {advice}") from error
        nodes = {operation.name for operation in graph.get_operations()}
        feeds = {name: value for name, value in expected.feeds.items() if name.split(":")[0] in nodes}
        try:
            check_outputs(who, session, outputs, feeds, expected, advice)
        except RuntimeError as error:
            cause = error.__cause__
            if not (isinstance(cause, tf.errors.FailedPreconditionError) and "able not init" in str(cause)):
                raise
            warn_not_compared(who, "frozen graphs have no table initializer.")


def _check_serving(path: str, tags: list[str], outputs: list[str], expected: Expected) -> None:
    """Raise RuntimeError if TensorFlow cannot load a SavedModel, or if it does not compute what is expected."""
    who = "ModelExporter.export_serving"
    advice = "Report this error: the cause is in TensorFlow or in this library."
    with tf.Graph().as_default(), _new_session() as session:
        try:
            tf.saved_model.loader.load(session, tags, path)
        except (tf.errors.OpError, ValueError) as error:
            raise RuntimeError(f"{who}: TensorFlow cannot load the SavedModel: {error}. {advice}") from error
        check_outputs(who, session, outputs, expected.feeds, expected, advice)


def _check_destination(path: str, overwrite: bool) -> None:
    """Raise FileExistsError if a SavedModel may not be written to `path`, and ValueError if TensorFlow could not load it."""
    if is_pattern(path):
        raise ValueError(
            f"ModelExporter.export_serving: TensorFlow cannot load a SavedModel from '{path}' (expected a path without brackets "
            "and backslashes, which it takes for a pattern). Choose another path."
        )
    if not tf.gfile.Exists(path):
        return
    is_saved_model = tf.gfile.Exists(os.path.join(path, "saved_model.pb"))
    if is_saved_model and overwrite:
        return
    problem = f"{path} exists" if is_saved_model else f"{path} exists and is not a SavedModel"
    way_out = ", or pass overwrite=True" if is_saved_model else ""
    advice = f"Export to {_next_version(path)}{way_out}."
    raise FileExistsError(f"ModelExporter.export_serving: {problem}. {advice}")


def _next_version(path: str) -> str:
    """Return the path of the next version: "export/3" for "export/1" or "export" if "export" contains "1" and "2"."""
    is_parent = tf.gfile.IsDirectory(path) and not os.path.basename(path).isdigit()
    parent = path if is_parent else os.path.dirname(path)
    names = [name.rstrip("/") for name in tf.gfile.ListDirectory(parent or ".")]
    newest = max((int(name) for name in names if name.isdigit()), default=0)
    return os.path.join(parent, str(newest + 1))


def _make_signatures(names: Sequence[str], inputs: Sequence[tf.Tensor], outputs: Sequence[tf.Tensor]) -> dict[str, Any]:
    return {name: _make_signature(_name(inputs), _name(outputs)) for name in names}


def _make_signature(inputs: Mapping[str, tf.Tensor], outputs: Mapping[str, tf.Tensor]) -> Any:
    infos = [
        {key: tf.saved_model.utils.build_tensor_info(tensor) for key, tensor in tensors.items()}
        for tensors in (inputs, outputs)
    ]
    return tf.saved_model.signature_def_utils.build_signature_def(
        *infos, method_name=tf.saved_model.signature_constants.PREDICT_METHOD_NAME
    )


def _name(tensors: Sequence[tf.Tensor]) -> dict[str, tf.Tensor]:
    """Return tensors with their names in a signature. Those whose names would be equal keep their names in the graph."""
    by_name = {tensor.name: tensor for tensor in tensors}
    keys = [_key(tensor) for tensor in by_name.values()]
    return {name if keys.count(key) > 1 else key: tensor for key, (name, tensor) in zip(keys, by_name.items())}


def _key(tensor: tf.Tensor) -> str:
    """Return the name of a tensor in a signature: "scope_x" for "scope/x:0", "split_1" for "split:1"."""
    return re.sub(r"\W", "_", re.sub(":0$", "", tensor.name))

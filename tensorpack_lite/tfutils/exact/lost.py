"""Search for state that neither a variable nor anything else in a checkpoint holds."""

from __future__ import annotations

import re
from typing import Any, Collection

from ...compat import tfv1 as tf
from ...utils.naming import CONSUMED_KEY, CONSUMED_OP_NAME
from ..dependency import operations_of_fetches
from ..nodes import find_nodes

# Types of stateful operations whose state a checkpoint has, or which keep nothing from one run to the next. Everything else
# counts as lost, also types that this library does not know.
_KEPT = "|".join(
    (
        # variables
        r"_?Var(iable|Handle|IsInitialized)\w*|TemporaryVariable|_?ReadVariables?\w*|Assign\w*VariableOp|DisableCopyOnRead",
        r"Resource(Sparse)?(Apply|Scatter|Gather|StridedSlice|CountUp)\w*|Stateful(Standard|Truncated|Uniform|RandomB)\w*|Rng\w*Skip",
        r"StatelessRandomGetAlg|Mutex\w*|ConsumeMutexLock",
        # storage inside one run
        r"TensorArray\w*|Stack(V2|Push\w*|Pop\w*|Close\w*)?|Empty|DeepCopy|GuaranteeConst",
        # calls of functions, which are searched too
        r"StatefulPartitionedCall|RemoteCall|(_|Xla)?(If|While)|Case|_?Xla(Launch|Compile|Run)",
        # effects outside of the model
        r"Assert|Print\w*|CheckNumerics\w*|Sleep\w*|Write\w*Summary|\w*SummaryWriter|WriteFile|Save\w*",
        r"_?(Collective|Nccl|Horovod)\w*|CrossReplicaSum|_?(Host)?(Send|Recv)",
        # tables of constants, and uses of tables
        r"(Anonymous)?HashTable(V2)?|InitializeTable\w*|LookupTable\w*",
        # what is empty unless other stateful operations use it
        r"\w*Queue(V2)?|(MultiDevice|OneShot)?Iterator(V2)?",
    )
)
_IS_KEPT = re.compile(rf"({_KEPT})$")
_VARIABLES = ("VarHandleOp", "Variable", "VariableV2")


def find_lost_state(fetches: object, tables: Collection[str] = ()) -> list[str]:
    """
    List the operations that `sess.run(fetches)` executes, and whose state no checkpoint has.

    Such operations are `tf.py_func`, queues, accumulators, staging areas, iterators and readers that no input of the training
    counts, and all stateful operations of unknown types. Variables that are in no collection are listed, too. Random
    operations are not; see `find_stateful_random_ops`.

    Args:
        fetches: anything that `sess.run` accepts, e.g. `trainer.train_op`.
        tables: the names of mutable tables whose contents are saved.

    Returns:
        Sorted names, those in functions as in `find_nodes`.
    """
    ops = operations_of_fetches(fetches)
    if not ops:
        return []
    variables = [*tf.global_variables(), *tf.local_variables(), *tf.get_collection(CONSUMED_KEY)]
    known = {variable.op.name for variable in variables} | set(tables)
    operations = ops[0].graph.get_operations()
    # `dequeue_many` makes the constant for its number wait for the counter instead of itself
    waiting = {op.name for op in operations if op.type == "Const" and _is_counted(op.node_def)}
    areas = {_area(op.node_def) for op in operations if op.type == "Unstage" and _is_counted(op.node_def)}
    return sorted(
        name
        for name, node in find_nodes(ops, _may_be_lost)
        if name not in known and not _is_counted(node) and not (_area(node) and _area(node) in areas)
        if waiting.isdisjoint(source.split(":")[0] for source in node.input)
    )


def _may_be_lost(definition: Any) -> bool:
    is_random = any(attr.name == "seed" for attr in definition.attr)
    is_kept = _IS_KEPT.match(definition.name) and definition.name not in _VARIABLES
    return definition.is_stateful and not is_random and not is_kept


def _is_counted(node: Any) -> bool:
    """Return whether an operation takes a datapoint of an input, whose position is saved."""
    controls = (name.split("/")[-1] for name in node.input if name.startswith("^"))
    return any(name.lstrip("^").startswith(CONSUMED_OP_NAME) for name in controls)


def _area(node: Any) -> bytes:
    """Return the name of the staging area that an operation uses; empty if it uses none."""
    return node.attr["shared_name"].s if "Stage" in node.op or "Unstage" in node.op else b""  # type: ignore[no-any-return]

"""
Exact resume of DataFlows: their positions, and the stages that need more than a number of datapoints for them.

**In:** the stages of a pipeline.
**Out:** a position, which a checkpoint keeps; or a pipeline that continues at one.
**Next:** input_source, which keeps the position of its DataFlow.

`checkpointable` has the methods of every DataFlow that concern its position, and `stage_position` keeps the position of one stage.
A stage that holds datapoints back derives from `holds_back`, with a `numbered_source` that numbers them; one that keeps a whole pass,
from `kept_pass`. `in_flight`, `parallel_map` and `runner` are for stages with workers.
"""

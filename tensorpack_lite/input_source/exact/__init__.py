"""
Exact resume of inputs: the position of the data, and the number of datapoints that runs have used.

**In:** the datapoints that an input reads.
**Out:** the position after the last datapoint that was used.
**Next:** `tfutils.exact`, which collects the positions of all inputs.
"""

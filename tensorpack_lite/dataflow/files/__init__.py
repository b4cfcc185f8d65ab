"""
File formats of datapoints.

**In:** datapoints from dataflow; files of other programs.
**Out:** files that are complete or absent; datapoints, read without running code from the files.
**Next:** dataflow, whose `serialize.py` and `format.py` have the classes that users call.
"""

"""
Summary of a model: its layers with output shapes, parameters, floating-point operations and memory.

**In:** the graph of a training whose callbacks are set up.
**Out:** a table, and `model.json` in the logger's directory.
**Next:** the user, and the report.
"""

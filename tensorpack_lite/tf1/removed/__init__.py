"""
Names that NumPy, SciPy, Python and other libraries have removed, as old scripts use them.

**In:** the names of `table.py`, and the source files of the script.
**Out:** modules that have these names again, and code of the script that runs on today's Python.
**Next:** the script, in a process of `tensorpack-lite run`. Nothing here is active without that command.

`modules.py` gives the names to modules when they are imported; a name is looked up when it is first used. `source.py`
reads the files of the script: `python2.py` translates those in the syntax of Python 2, and `rewrite.py` replaces methods
and arguments that cannot be given back to their classes. Only the standard library is imported until a name is used, and
`tensorpack_lite` itself is not: every process of a script loads this package.
"""

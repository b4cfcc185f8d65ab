"""
The interface of tensorpack 0.2 to 0.10, which `tensorpack-lite run` adds to tensorpack_lite.

**In:** a module of tensorpack_lite that a process of `run` has just imported.
**Out:** the same module, with what older versions had: names, renamed arguments, older interfaces of classes, and
functions that behave as they did.
**Next:** the modules that import it, and the script.

`removed/modules.py` calls `complete.py` for each module before any other module sees it, so an import of a name always gives
the completed one. `modules.py` finds the module for a name below `tensorpack`. Nothing here is active without the command.
"""

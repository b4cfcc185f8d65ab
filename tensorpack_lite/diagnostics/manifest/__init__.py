"""
The manifest of a training: the file `manifest.json`, and descriptions of code, packages, machine and objects.

**In:** objects, `sys.modules`, git, files of the operating system. **Out:** JSON values. **Next:**
`diagnostics/manifest/writer.py` writes the file, and `cli/diff.py` compares two of them.
"""

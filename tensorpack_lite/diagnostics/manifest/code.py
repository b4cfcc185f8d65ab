"""Description of the code of a training: its script, the modules in its directory, and the state of its git repository."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from types import ModuleType
from typing import Any

from ...utils.inspection import is_installed

_MAX_BYTES = 2 << 20  # of all copies together
_MAX_PATCH_CHARS = 1 << 20
_GIT_SECONDS = 10.0


def describe_code() -> dict[str, Any]:
    """
    Describe the code that this process runs.

    Returns:
        "script": its path, None in an interactive session; "arguments"; "files": name -> content of the script and of
        the imported modules in its directory, 2 MB at most; "omitted": name -> SHA-256 of files beyond this limit;
        "git": the commit, branch and patch of the uncommitted changes, or the reason why they are unknown.
    """
    files: dict[str, str] = {}
    omitted: dict[str, str] = {}
    described = {"script": None, "arguments": sys.argv[1:], "files": files, "omitted": omitted, "git": {}}
    paths = own_files()
    if not paths:
        return described
    script = paths[0]
    directory = os.path.dirname(script)
    room = _MAX_BYTES
    for path in paths:
        with open(path, "rb") as file:
            content = file.read()
        name = os.path.relpath(path, directory)
        if len(content) <= room:
            files[name] = content.decode("utf-8", errors="replace")
            room -= len(content)
        else:
            omitted[name] = hashlib.sha256(content).hexdigest()
    return {**described, "script": script, "git": _describe_repository(directory)}


def own_files() -> list[str]:
    """Return the path of the script, and those of the imported modules in its directory; empty in an interactive session."""
    path = getattr(sys.modules.get("__main__"), "__file__", None)
    if path is None:
        return []
    script = os.path.realpath(path)
    return [script, *(path for path in _modules_below(os.path.dirname(script)) if path != script)]


def _modules_below(directory: str) -> list[str]:
    """Return the files of imported modules in a directory, without installed packages and this library."""
    paths = set()
    for module in [module for module in list(sys.modules.values()) if isinstance(module, ModuleType)]:
        # looking up the attribute itself would import a module that is loaded on first use
        path = object.__getattribute__(module, "__dict__").get("__file__")
        if isinstance(path, str) and path.endswith(".py") and not is_installed(path):
            path = os.path.realpath(path)
            if path.startswith(directory + os.sep) and os.path.isfile(path):
                paths.add(path)
    return sorted(paths)


def _describe_repository(directory: str) -> dict[str, Any]:
    try:
        head = _git(directory, "rev-parse", "HEAD", "--abbrev-ref", "HEAD").split()
        patch = _git(directory, "diff", "--no-color", "--no-ext-diff", "--no-textconv", "HEAD")
    except subprocess.CalledProcessError as error:
        return {"reason": error.stderr.decode("utf-8", errors="replace").strip().partition("\n")[0]}
    except (OSError, subprocess.TimeoutExpired) as error:
        return {"reason": f"git: {error}"}
    if len(patch) > _MAX_PATCH_CHARS:
        patch = f"omitted: {len(patch)} characters, SHA-256 {hashlib.sha256(patch.encode()).hexdigest()}"
    return {"commit": head[0], "branch": head[1], "dirty": bool(patch), "patch": patch}


def _git(directory: str, *arguments: str) -> str:
    # no locks in the repository, no helper programs, no downloads
    environment = {**os.environ, "GIT_OPTIONAL_LOCKS": "0", "GIT_NO_LAZY_FETCH": "1"}
    done = subprocess.run(
        ["git", "-C", directory, "-c", "core.fsmonitor=false", *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env=environment,
        timeout=_GIT_SECONDS,
        check=True,
    )
    return done.stdout.decode("utf-8", errors="replace")

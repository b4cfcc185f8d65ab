"""
Plugin for tox, which loads this file from the directory of `tox.ini`.

tox prints nothing while pip installs. Therefore this plugin says before the installation what the environment does, and
how long the installation takes.
"""

from __future__ import annotations

from tox.plugin import impl

__all__ = ["tox_on_install"]


@impl
def tox_on_install(tox_env, arguments, section: str, of_type: str) -> None:
    """Called before each installation of packages. That of the `deps` of `tox.ini` comes first, and takes longest."""
    if (section, of_type) != ("PythonRun", "deps"):  # the others are short, or build the wheel
        return
    name, description = tox_env.conf["env_name"], tox_env.conf["description"]
    if description:
        print(f"{name}: {description}")
    print(
        f"{name}: installing packages, which prints nothing and takes 1 to 3 minutes on an idle machine ...",
        flush=True,
    )

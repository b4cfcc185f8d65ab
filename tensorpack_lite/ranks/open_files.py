"""The limit of open files, of which the hub needs one for each rank."""

from __future__ import annotations

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

_FOR_OTHERS = 256  # the files of the training itself, and connections that are not those of a rank


def allow_open_files(size: int) -> None:
    """
    Raise the limit of open files of this process if it is too low for a hub.

    Args:
        size: the number of ranks, each of which keeps a connection open.

    Raises:
        OSError: the system does not allow it.
    """
    if resource is None:
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = size + _FOR_OTHERS
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
    except (ValueError, OSError) as error:
        raise OSError(
            f"Rank 0 may open too few files for {size} ranks (expected at least {needed}, got {soft}, and this user may set at "
            f"most {hard}). Raise the limit on its machine: ulimit -n {needed}."
        ) from error

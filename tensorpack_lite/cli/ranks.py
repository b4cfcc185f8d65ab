"""`tensorpack-lite ranks`: let the processes that a launcher starts meet, and print a table of them, without training."""

from __future__ import annotations

import argparse
import os
import socket
import sys

from tabulate import tabulate

from ..ranks.channel import RankChannel
from ..ranks.cluster import parse_address
from ..ranks.connecting import RankError
from ..ranks.meeting import gather_machines, plan_meeting
from ..ranks.rank_info import find_rank_info, find_remark

_HEADERS = ["rank", "host", "address", "launcher", "round trip"]


def ranks(args: argparse.Namespace) -> int:
    """
    Meet the other ranks, and print the table on rank 0.

    Args:
        args: the parsed arguments: `time_limit`, in seconds.

    Returns:
        0; 2 if the ranks cannot meet.

    Raises:
        ValueError, OSError: the environment of this process does not tell where the ranks meet, or the secret is not valid.
    """
    place = find_rank_info(os.environ)
    if place is None or place.size == 1:
        sys.stdout.write(f"This process trains alone. {find_remark(os.environ)}".rstrip() + "\n")
        return 0
    meeting = plan_meeting(place)
    sys.stdout.write(f"{place.describe(socket.gethostname())} {meeting.describe()}\n")
    sys.stdout.flush()
    try:
        channel = RankChannel(
            place.rank,
            place.size,
            meeting.address,
            args.time_limit,
            credentials=meeting.credentials,
            other_ports=meeting.other_ports,
        )
        try:
            machines = gather_machines(channel)
            rows_of_ranks = channel.gather("the launchers", [place.launcher, f"{channel.round_trip() * 1000:.2f} ms"])
        finally:
            channel.close()
    except RankError as error:
        sys.stderr.write(f"tensorpack-lite ranks: {error}\n")
        return 2
    if rows_of_ranks is not None:
        hosts = [parse_address(address)[0] for address in machines.addresses]
        rows = [
            [rank, name, host, *columns]
            for rank, (name, host, columns) in enumerate(zip(machines.names, hosts, rows_of_ranks))
        ]
        sys.stdout.write(tabulate(rows, headers=_HEADERS) + "\n")
    return 0

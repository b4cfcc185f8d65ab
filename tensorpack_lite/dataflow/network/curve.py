"""
Authentication and encryption of ZMQ connections by a secret that both ends know.

CURVE (https://rfc.zeromq.org/spec/26/) gives each end a pair of keys. Both pairs are derived from the secret (HKDF with
SHA-256, RFC 5869), so each end can compute the other's public key. Every connection is encrypted with new keys, so a
recording of one connection cannot be replayed in another.

The receiver is CURVE's server, whichever end binds. It admits only clients that own the sender's key, and a
sender sends only to a server that owns the receiver's key.
"""

from __future__ import annotations

import hashlib
import hmac
import threading
from typing import TYPE_CHECKING, NamedTuple

from .pyzmq import load_zmq

if TYPE_CHECKING:
    import zmq

_SALT = b"tensorpack_lite RemoteDataZMQ 1"
_ZAP_ADDRESS = "inproc://zeromq.zap.01"  # the address that libzmq asks


class Keys(NamedTuple):
    """
    Keys of both ends, in ZMQ's encoding (Z85).

    Attributes:
        receiver_public, receiver_secret: keys of the receiver.
        sender_public, sender_secret: keys that all senders share.
    """

    receiver_public: bytes
    receiver_secret: bytes
    sender_public: bytes
    sender_secret: bytes

    def __repr__(self) -> str:
        return "Keys(...)"  # keeps the keys out of logs


def derive_keys(secret: str, who: str) -> Keys | None:
    """
    Derive the keys of both ends from a secret.

    Args:
        secret: any text; an empty text means no secret.
        who: the class or function that needs them, for errors.

    Returns:
        The keys, or None without a secret.

    Raises:
        ImportError: the installed libzmq lacks CURVE.
    """
    if not secret:
        return None
    zmq = load_zmq()
    if not zmq.has("curve"):
        raise ImportError(
            f"{who}: a secret needs a libzmq with CURVE, but the installed libzmq {zmq.zmq_version()} lacks it. "
            "Install the wheel of pyzmq: pip install --force-reinstall --only-binary :all: pyzmq"
        )
    extracted = hmac.new(_SALT, secret.encode("utf-8", "surrogateescape"), hashlib.sha256).digest()
    keys = []
    for role in (b"receiver", b"sender"):
        private = hmac.new(extracted, role + b"\x01", hashlib.sha256).digest()  # HKDF's first block is enough
        encoded = zmq.utils.z85.encode(private)
        keys += [zmq.curve_public(encoded), encoded]
    return Keys(*keys)


def secure(socket: zmq.Socket[bytes], keys: Keys) -> None:
    """
    Require CURVE for all connections of a socket, with the keys of its end.

    Args:
        socket: a PULL socket, which receives, or a PUSH socket, which sends; not yet bound or connected. A
            receiver also needs a `Gatekeeper` in its context, otherwise it refuses all connections.
        keys: keys of both ends.
    """
    zmq = load_zmq()
    if socket.getsockopt(zmq.TYPE) == zmq.PULL:
        socket.setsockopt(zmq.CURVE_SERVER, 1)
        socket.setsockopt(zmq.CURVE_SECRETKEY, keys.receiver_secret)
        socket.setsockopt(zmq.ZAP_DOMAIN, b"tensorpack_lite")
        # without this option, libzmq admits every client if the gatekeeper has ended
        socket.setsockopt(zmq.ZAP_ENFORCE_DOMAIN, 1)
    else:
        socket.setsockopt(zmq.CURVE_SERVERKEY, keys.receiver_public)
        socket.setsockopt(zmq.CURVE_PUBLICKEY, keys.sender_public)
        socket.setsockopt(zmq.CURVE_SECRETKEY, keys.sender_secret)


class Gatekeeper:
    """
    Thread that tells libzmq whether a client's public key is admitted (ZAP, https://rfc.zeromq.org/spec/27/).

    It is a thread because a peer has only two seconds for its handshake, and the consumer of the data may be busy for
    longer. The thread ends with the context.

    Args:
        context: context of the sockets to guard.
        keys: keys of both ends; only the sender's key is admitted.
    """

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], keys: Keys) -> None:
        self._zmq = zmq = load_zmq()
        self._admitted = zmq.utils.z85.decode(keys.sender_public)
        # a shadow context, so that `context.destroy` does not close the socket, which belongs to the thread
        self._socket = zmq.Context.shadow(context.underlying).socket(zmq.REP)
        self._socket.setsockopt(zmq.LINGER, 0)
        self._socket.bind(_ZAP_ADDRESS)
        threading.Thread(target=self._run, name="RemoteDataZMQ gatekeeper", daemon=True).start()

    def _run(self) -> None:
        try:
            while True:
                self._socket.send_multipart(self._answer(self._socket.recv_multipart()))
        except self._zmq.ContextTerminated:
            pass
        finally:
            self._socket.close(0)

    def _answer(self, request: list[bytes]) -> list[bytes]:
        version, number, _domain, _address, _identity, mechanism, *credentials = request
        admitted = (
            mechanism == b"CURVE" and len(credentials) == 1 and hmac.compare_digest(credentials[0], self._admitted)
        )
        status = [b"200", b"OK"] if admitted else [b"400", b"unknown key"]
        return [version, number, *status, b"", b""]

"""Tests for the secret that both ends of RemoteDataZMQ know."""

from __future__ import annotations

import pickle

import pytest
import zmq
from fakes.remote import Counting, Failing, free_tcp, open_socket, receive
from fakes.zmtp import closes, command, frame, greeting, knock, shake_hands

from tensorpack_lite.dataflow.network.curve import Gatekeeper, derive_keys
from tensorpack_lite.dataflow.network.wire import encode_datapoint
from tensorpack_lite.dataflow.remote import RemoteDataZMQ, send_dataflow_zmq

SECRET, OTHER = "a secret of the job", "the secret of another job"
GOOD = encode_datapoint("me", [5])


class TestTheRightSecret:
    @pytest.mark.parametrize("bind", [False, True])
    def test_datapoints_arrive(self, bind, address, send):
        """With the right secret, datapoints arrive, whichever end binds."""
        send(address, bind=bind, secret=SECRET)
        assert [0, 1, 2] == receive(RemoteDataZMQ(address, bind=not bind, secret=SECRET), 3)

    def test_from_a_file_and_from_the_environment(self, ipc, send, tmp_path, monkeypatch):
        """One end may read the secret from a file, the other from the environment."""
        path = tmp_path / "secret"
        path.write_text(SECRET + "\n")
        path.chmod(0o600)
        monkeypatch.setenv("TENSORPACK_LITE_SECRET", SECRET)
        send(ipc, secret=path)
        assert [0, 1] == receive(RemoteDataZMQ(ipc), 2)

    def test_in_a_worker(self, ipc, send):
        """A RemoteDataZMQ with a secret can be pickled."""
        send(ipc, secret=SECRET)
        assert [0, 1] == receive(pickle.loads(pickle.dumps(RemoteDataZMQ(ipc, secret=SECRET))), 2)

    def test_an_error_counts_at_once(self, address, send):
        """The error of a sender that knows the secret is raised."""
        send(address, flow=Failing(KeyError("label")), secret=SECRET)
        with pytest.raises(KeyError, match="Failing failed at the sender"):
            list(RemoteDataZMQ(address, secret=SECRET))

    def test_another_version_is_an_error(self, ipc):
        """A sender that knows the secret but has another version ends the iteration."""
        with zmq.Context() as context:
            sender = open_socket(context, zmq.PUSH, ipc, 5, False, "test", derive_keys(SECRET, "test"))
            sender.send(GOOD[0][:3] + b"\x09" + GOOD[0][4:])
            with pytest.raises(RuntimeError, match="a message of version 9 .expected 2.. Install the same version"):
                list(RemoteDataZMQ(ipc, secret=SECRET))
            sender.close(0)


class TestOtherSecrets:
    @pytest.mark.slow
    @pytest.mark.parametrize(("theirs", "ours"), [(OTHER, SECRET), (None, SECRET), (SECRET, None)])
    def test_are_refused(self, theirs, ours, address):
        """With another secret, nothing arrives, and the error names the failed handshakes."""
        with zmq.Context() as context:
            sender = open_socket(context, zmq.PUSH, address, 5, False, "test", theirs and derive_keys(theirs, "test"))
            sender.send_multipart(GOOD)
            with pytest.raises(RuntimeError, match="Meanwhile: .* secret ended in ZMQ's handshake"):
                list(RemoteDataZMQ(address, start_timeout=1.0, secret=ours))
            sender.close(0)

    @pytest.mark.slow
    def test_the_receiver_warns(self, ipc, log_lines):
        """The receiver logs one warning when a sender with another secret connects."""
        with zmq.Context() as context:
            sender = open_socket(context, zmq.PUSH, ipc, 5, False, "test", derive_keys(OTHER, "test"))
            with pytest.raises(RuntimeError, match="Meanwhile: .* has no secret or another one"):
                list(RemoteDataZMQ(ipc, start_timeout=5, secret=SECRET))
            sender.close(0)
        (line,) = log_lines
        assert "refused a connection: the other end" in line
        assert "Pass the same secret to send_dataflow_zmq and RemoteDataZMQ" in line

    @pytest.mark.slow
    @pytest.mark.parametrize(("ours", "theirs"), [(SECRET, None), (None, SECRET)])
    def test_the_sender_raises(self, ours, theirs, ipc):
        """A sender raises an error, and has sent nothing, if only one end uses a secret."""
        with zmq.Context() as context:
            receiver = open_socket(context, zmq.PULL, ipc, 5, True, "test", theirs and derive_keys(theirs, "test"))
            with pytest.raises(RuntimeError, match="send_dataflow_zmq: cannot send to ipc://.*Pass the same secret"):
                send_dataflow_zmq(Counting(), ipc, secret=ours)
            assert not receiver.poll(0)
            receiver.close(0)

    @pytest.mark.slow
    def test_another_key_than_the_senders(self):
        """A peer that knows only the public key of the receiver is refused."""
        address, keys = free_tcp(), derive_keys(SECRET, "test")
        public, private = zmq.curve_keypair()
        stolen = keys._replace(sender_public=public, sender_secret=private)
        with zmq.Context() as context:
            sender = open_socket(context, zmq.PUSH, address, 5, False, "test", stolen)
            sender.send_multipart(GOOD)
            with pytest.raises(RuntimeError, match="no sender connected to .* has no secret or another one"):
                list(RemoteDataZMQ(address, start_timeout=1.0, secret=SECRET))
            sender.close(0)

    @pytest.mark.slow
    def test_without_a_gatekeeper_all_peers_are_refused(self):
        """A socket without a gatekeeper refuses all peers, even with the right key."""
        address, keys = free_tcp(), derive_keys(SECRET, "test")
        with zmq.Context() as ours, zmq.Context() as theirs:
            receiver = open_socket(ours, zmq.PULL, address, 5, True, "test", keys)
            sender = open_socket(theirs, zmq.PUSH, address, 5, False, "test", keys)
            sender.send_multipart(GOOD)
            assert not receiver.poll(1000)
            receiver.close(0)
            sender.close(0)

    @pytest.mark.parametrize("version", [b"\x00\x00", b"\x01\x00", b"\x02\x00", b"\x03\x00"])
    @pytest.mark.parametrize("mechanism", [b"NULL", b"PLAIN", b"CURVE", b"GSSAPI"])
    def test_older_protocols_and_other_mechanisms(self, version, mechanism):
        """Older versions of ZMQ's protocol and other mechanisms do not circumvent the secret."""
        address, keys = free_tcp(), derive_keys(SECRET, "test")
        with zmq.Context() as context:
            Gatekeeper(context, keys)
            receiver = open_socket(context, zmq.PULL, address, 5, True, "test", keys)
            ready = command(b"READY", b"\x0bSocket-Type\x00\x00\x00\x04PUSH")
            with knock(address) as stranger:
                stranger.sendall(greeting(mechanism, version) + ready + frame(GOOD[0]))
                assert closes(stranger)
            assert not receiver.poll(0)
            receiver.close(0)

    def test_a_peer_without_a_handshake_needs_little_memory(self):
        """A command above 1 MB before the end of the handshake ends the connection."""
        address, keys = free_tcp(), derive_keys(SECRET, "test")
        with zmq.Context() as context:
            Gatekeeper(context, keys)
            receiver = open_socket(context, zmq.PULL, address, 5, True, "test", keys)
            with knock(address) as stranger:
                stranger.sendall(greeting(b"CURVE") + b"\x06" + (200 << 20).to_bytes(8, "big"))
                assert closes(stranger)
            receiver.close(0)


class TestArguments:
    def test_an_invalid_secret(self, ipc):
        """A secret that is too short or has another type is refused at both ends, at once."""
        with pytest.raises(ValueError, match="RemoteDataZMQ: the secret from the argument is too short"):
            RemoteDataZMQ(ipc, secret="short")
        with pytest.raises(TypeError, match="send_dataflow_zmq: the secret has the wrong type"):
            send_dataflow_zmq(Counting(), ipc, secret=5)

    def test_a_libzmq_without_curve(self, ipc, monkeypatch):
        """Without CURVE in libzmq, an ImportError tells what to install."""
        monkeypatch.setattr(zmq, "has", lambda name: False)
        with pytest.raises(
            ImportError, match="RemoteDataZMQ: a secret needs a libzmq with CURVE, .* Install the wheel"
        ):
            RemoteDataZMQ(ipc, secret=SECRET)

    def test_false_overrides_the_environment(self, ipc, send, monkeypatch):
        """secret=False ignores the secret in the environment."""
        monkeypatch.setenv("TENSORPACK_LITE_SECRET", SECRET)
        send(ipc, secret=False)
        assert [0, 1] == receive(RemoteDataZMQ(ipc, secret=False), 2)

    def test_keys(self):
        """Keys depend only on the secret and the role, and are not shown in logs."""
        keys = derive_keys(SECRET, "test")
        assert keys == derive_keys(SECRET, "test")
        assert 8 == len({*keys, *derive_keys(OTHER, "test")})
        assert "Keys(...)" == repr(keys)


def test_strangers_change_nothing(send):
    """Strangers without the secret do not delay datapoints and do not count as dropped messages."""
    address = free_tcp()
    flow = RemoteDataZMQ(address, secret=SECRET)
    strangers = []
    send(address, secret=SECRET)
    flow.reset_state()
    for _, number in flow:
        strangers.append(shake_hands(address))
        if number == 20:
            break
    for stranger in strangers:
        stranger.close()
    assert 0 == flow.dropped

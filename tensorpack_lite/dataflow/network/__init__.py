"""
Transport of datapoints between machines: ZMQ sockets, authentication and the message format.

**In:** messages from senders on other machines, and from strangers.
**Out:** datapoints, errors of the sender and the number of dropped messages. Code is received only if both ends ask for
pickle.
**Next:** dataflow, whose `remote.py` has the functions that users call.
"""

"""
Helpers on one graph: towers, variables, sessions, summaries, gradients. They know nothing of trainers.

**In:** a graph that is being built, and names from utils.
**Out:** towers and tensors by name, optimizers and gradient processors, checkpoints, sessions.
**Next:** loop, models and graph_builder, which are written with these.
"""

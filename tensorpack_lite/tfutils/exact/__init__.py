"""
Exact resume of one graph: what a checkpoint keeps besides variables, what it does not keep, and random operations that repeat.

**In:** the state in a checkpoint.
**Out:** the positions of all inputs, entropy, generators and local variables, for the next checkpoint.
**Next:** train, which resumes; input_source, whose inputs register here.
"""

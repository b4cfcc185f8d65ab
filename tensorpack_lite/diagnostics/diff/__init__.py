"""
Diff: what differs between two training runs, by their manifests and statistics.

**In:** the content of two manifests and the rows of two `stats.json`, as JSON values.
**Out:** sections with differences, and one sentence about their likely cause.
**Next:** the command `tensorpack-lite diff`.
"""

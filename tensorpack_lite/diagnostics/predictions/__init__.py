"""
Predictions: what the model makes of validation images, collected without a line in the script.

**In:** the inference tower of the first InferenceRunner, and the values that its runs fetch.
**Out:** `samples/predictions.npz`, `worst.npz` and `confusion.npz` in the logger's directory.
**Next:** the report.
"""

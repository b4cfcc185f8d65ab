"""GPUs: what TensorFlow's messages about them mean, and a report of what a machine has."""

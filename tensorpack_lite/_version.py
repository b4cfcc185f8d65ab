"""The one place that states the version; setup.py reads it with a regular expression."""

__version__ = "0.2.0.dev0"

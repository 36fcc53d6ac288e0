"""The version, a constant: reading package metadata costs 27 ms at every start."""

VERSION = "0.1.0"

"""The version, which saved runs name."""

VERSION = "0.1.0"

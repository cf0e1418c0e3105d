"""The figures of the report, all drawn here: one style, units on every axis, readable in grey."""

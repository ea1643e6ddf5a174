"""What all suites share: packages, rooms to run in, nodes to run against, and the report."""

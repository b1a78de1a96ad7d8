"""A gym for diagnosing broken training runs: procedural tasks, a grader, an audit.

Nothing here needs more than the standard library. `environment.load_environment` is the
entrance; docs/gym.md tells the rest.
"""

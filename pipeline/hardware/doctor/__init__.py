"""The doctor: what broke a run, shown by lines of its own files. No torch."""

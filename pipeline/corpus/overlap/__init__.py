"""Does training data repeat a protected problem? Protected sets, search, classes, report."""

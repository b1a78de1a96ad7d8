"""Which clean traces are trained within the budget: order, quotas, diversity, a report."""

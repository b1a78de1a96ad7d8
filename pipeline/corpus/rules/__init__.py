"""Which traces are worth learning from: catalogue.py lists the rules, the others hold them."""

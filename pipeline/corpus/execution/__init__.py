"""Work on many shards at once: by watched processes here, or over a Ray cluster.

shards.py cuts input files into shards; executor.py runs a task on every shard;
watch.py is what the task sees; guard.py and worker.py are the two sides of one watched
process; ray_backend.py spreads guards over a cluster; scratch.py keeps finished shards.
"""

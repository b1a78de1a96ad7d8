"""Serves every room and stage; imports none of them."""

from pipeline.base.offline import go_offline

go_offline()

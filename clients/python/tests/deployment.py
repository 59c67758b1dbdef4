"""A deployment for a test, on a Redis that is there. Without a timer, no message becomes due."""

import itertools

from delayq.scripts import script

_NUMBERS = itertools.count()


class Deployment:
    """Shards in a private namespace, and scripts that no client calls."""

    def __init__(self, connection, shards=1, namespace=None):
        self.redis, self.namespace, self.shards = connection, namespace or f"t{next(_NUMBERS)}", shards
        for shard in range(shards):
            self.call("init", shard, shard, shards)

    def call(self, verb, shard, *args, layout=1):
        keys = self.key(shard), self.key(shard, "never")
        return self.redis.eval(script(verb)[0], 2, *keys, layout, *args)

    def key(self, shard, name="meta"):
        return f"{{{self.namespace}:{shard}}}:{name}"

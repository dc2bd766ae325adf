"""Reads routes from outside: through fib/list, rib/list and by sending Interests."""

from . import management as mgmt
from .packets import interest


def joined(components):
    return b"".join(components)


async def fib(t, prefix):
    return mgmt.fib_entries(await mgmt.dataset(await t.manager(), "fib/list")).get(
        joined(prefix), {}
    )


async def rib(t, prefix):
    return mgmt.rib_entries(await mgmt.dataset(await t.manager(), "rib/list")).get(
        joined(prefix), []
    )


async def arrives(t, face, target, consumer=None):
    consumer = consumer or await t.face(t.router.local)
    consumer.send(interest(target))
    await face.interest(target)


async def not_routed(t, target, face):
    """Checks that an Interest for `target` does not reach `face`."""
    consumer = await t.face(t.router.local)
    consumer.send(interest(target, lifetime=300))
    await face.none("interest", target, what="The route had to be gone.")

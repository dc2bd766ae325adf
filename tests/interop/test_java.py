"""jndn from Maven Central: RSA-signed 0.2 registration over TCP, consumers over TCP and UDP."""

from harness import check, test

for consumer in ("tcp", "udp"):

    @test(f"jndn producer over tcp, consumer over {consumer}")
    async def exchange(h, transport=consumer):
        # jndn has no unix sockets. A consumer over UDP needs no registration.
        out = await h.run(
            h.java("Jndn.java", h.uri(transport), h.uri("tcp"), h.prefix()), transport
        )
        check("jndn got: hello from jndn" in out, out)

"""Pieces of policies."""

# Believes whoever connects from this machine: so a test can be any client.
TRUSTING = "identity: {client_ip: {trusted_proxies: [127.0.0.0/8]}}\n"
SMALL = "store: {url: 'memory:?keys=20000'}\n"


def limits(*lines, trusting=True, more=""):
    """A policy with these limits, each in YAML's flow style: limits("name: a, rate: 1/s")."""
    text = "".join(f"  - {{{line}}}\n" for line in lines)
    return f"{TRUSTING if trusting else ''}{'' if 'store:' in more else SMALL}{more}limits:\n{text}"


def client(address):
    """Fields that make a request come from this address, under a trusting policy."""
    return [("X-Forwarded-For", address)]


def domain(name, *descriptors):
    """A file of the reference rate limit service with these descriptors, each in YAML's flow style."""
    return f"domain: {name}\ndescriptors:\n" + "".join(f"  - {{{one}}}\n" for one in descriptors)


def rate(requests, unit="minute", more=""):
    """rate(20): what such a descriptor says of its limit."""
    return f"rate_limit: {{unit: {unit}, requests_per_unit: {requests}{more}}}"

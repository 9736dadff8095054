"""What Envoy asks a rate limit service, asked by grpcio: an HTTP/2 and a protobuf that are not ours.

A descriptor is written as its entries, "key1=value1/key2", or as pairs where a key or a value has one of those characters."""

import grpc

pb, services = grpc.protos_and_services("ratelimit.proto")
health_pb, health_services = grpc.protos_and_services("health.proto")

METHOD = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"
UNLIMITED = 2**32 - 1  # what remains of a limit that is none
TIMEOUT_S = 20


def descriptor(entries, limit=None, hits=None):
    """`limit` is (requests, unit) that the descriptor brings, `hits` what it alone costs."""
    if isinstance(entries, str):
        entries = [pair.partition("=")[::2] for pair in entries.split("/")]
    made = pb.Descriptor(entries=[pb.Entry(key=key, value=value) for key, value in entries])
    if limit is not None:
        requests, unit = limit
        made.limit.requests_per_unit = requests
        made.limit.unit = pb.Unit.Value(unit) if isinstance(unit, str) else unit
    if hits is not None:
        made.hits_addend.value = hits
    return made


def request(domain, *descriptors, hits=0):
    made = [one if isinstance(one, pb.Descriptor) else descriptor(one) for one in descriptors]
    return pb.Request(domain=domain, descriptors=made, hits_addend=hits)


class Answer:
    def __init__(self, response):
        self.raw = response
        self.code = pb.Code.Name(response.overall_code)
        self.codes = [pb.Code.Name(status.code) for status in response.statuses]
        self.left = [status.limit_remaining for status in response.statuses]
        # (requests, unit) of each; None of those that no limit applies to.
        self.limits = [(status.current_limit.requests_per_unit, pb.Unit.Name(status.current_limit.unit))
                       if status.HasField("current_limit") else None for status in response.statuses]
        self.resets = [status.duration_until_reset.seconds if status.HasField("duration_until_reset") else None
                       for status in response.statuses]
        self.fields = {field.key.lower(): field.value or field.raw_value.decode()
                       for field in response.response_headers_to_add}
        assert len(self.fields) == len(response.response_headers_to_add), "a field is there twice"

    def __repr__(self):
        return f"<{self.code} {self.codes} {self.left} {self.limits} {self.resets} {self.fields}>"


class Service:
    """A connection to a rate limit service."""

    def __init__(self, address, credentials=None, options=()):
        target = f"unix:{address}" if isinstance(address, str) else "{}:{}".format(*address)
        # Each its own connection: channels of one process would share theirs.
        options = [("grpc.use_local_subchannel_pool", 1), *options]
        self.channel = (grpc.insecure_channel(target, options) if credentials is None
                        else grpc.secure_channel(target, credentials, options))
        self.stub = services.RateLimitServiceStub(self.channel)
        self.health = health_services.HealthStub(self.channel)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.channel.close()

    def ask(self, domain, *descriptors, hits=0, timeout=TIMEOUT_S):
        return Answer(self.stub.ShouldRateLimit(request(domain, *descriptors, hits=hits), timeout=timeout))

    def codes(self, count, domain, *descriptors, **more):
        """The overall code of each of `count` equal requests."""
        return [self.ask(domain, *descriptors, **more).code for _ in range(count)]

    def ask_bytes(self, message, method=METHOD, timeout=TIMEOUT_S):
        """Sends bytes for a message, whatever they are."""
        call = self.channel.unary_unary(method, request_serializer=bytes, response_deserializer=pb.Response.FromString)
        return Answer(call(message, timeout=timeout))

    def error(self, ask, *arguments, **more):
        """The status and the words that a call is refused with."""
        try:
            answer = ask(*arguments, **more)
        except grpc.RpcError as error:
            return error.code().name, error.details()
        raise AssertionError(f"no error: {answer}")

    def serving(self, name=""):
        answer = self.health.Check(health_pb.Question(service=name), timeout=TIMEOUT_S)
        return health_pb.Answer.Status.Name(answer.status)

"""libcaudal through ctypes: what the tests of this folder call, and nothing more.

The library is the one that the environment variable CAUDAL_LIBRARY names. A `now` of None calls the function without
`_at`, which reads the store's clock. A store here is opened with a clock that stands still at `clock_ns` (Store.set_clock moves
it), so that a test gives the same answers each time: adding a limit reads the store's clock.
"""
import ctypes
import os
from contextlib import contextmanager
from ctypes import POINTER, byref, c_char, c_char_p, c_int, c_int64, c_size_t, c_uint32, c_uint64, c_void_p
from dataclasses import dataclass

OK = 0
ERR_ARGUMENT, ERR_MEMORY, ERR_SYNTAX, ERR_LIMIT, ERR_UNKNOWN = -1, -2, -3, -4, -5
ERR_EXISTS, ERR_KEY, ERR_FULL, ERR_UNSUPPORTED, ERR_STORE = -6, -7, -8, -9, -10

ALGORITHMS = ("token_bucket", "fixed_window", "sliding_window", "sliding_log", "unlimited")
VERDICTS = (None, "allow", "deny", "never")
BURST_DEFAULT = 2**64 - 1
CAPACITY_MAX = 2**40
LOG_COUNT_MAX = 10_000
RATE_MAX_PER_SECOND = 10**9
REFILL_MAX_NS = 36525 * 24 * 3600 * 10**9
TAKE_ALL_MAX = 64
KEY_MAX = 65536


class _Problem(ctypes.Structure):
    _fields_ = [("code", c_int), ("position", c_size_t), ("message", c_char * 192)]


class _Limit(ctypes.Structure):
    _fields_ = [("size", c_size_t), ("algorithm", c_int), ("count", c_uint64), ("period_ns", c_uint64), ("burst", c_uint64)]


class _Decision(ctypes.Structure):
    _fields_ = [("status", c_int), ("verdict", c_int), ("source", c_int), ("binding", c_uint32), ("capacity", c_uint64),
                ("granted", c_uint64), ("remaining", c_uint64), ("retry_after_ns", c_int64), ("reset_after_ns", c_int64),
                ("error_bound", c_uint64)]


class _Request(ctypes.Structure):
    _fields_ = [("limit", c_uint32), ("key", c_void_p), ("key_length", c_size_t), ("cost", c_uint64)]


class _StoreOptions(ctypes.Structure):
    _fields_ = [("size", c_size_t), ("clock", c_void_p), ("allocator", c_void_p), ("secret", c_char_p),
                ("secret_length", c_size_t), ("deadline_ns", c_int64)]


class _StoreStats(ctypes.Structure):
    _fields_ = [("size", c_size_t), ("limits", c_uint64), ("bytes", c_uint64), ("slots", c_uint64), ("live_keys", c_uint64),
                ("inserted", c_uint64), ("live_evictions", c_uint64)]


def _load():
    path = os.environ.get("CAUDAL_LIBRARY")
    if not path:
        raise RuntimeError("set CAUDAL_LIBRARY to the path of libcaudal.so")
    library = ctypes.CDLL(path)
    key = (c_void_p, c_uint32, c_char_p, c_size_t)
    prototypes = {
        "caudal_version": ((), c_char_p),
        "caudal_status_text": ((c_int,), c_char_p),
        "caudal_fake_clock_new": ((c_int64,), c_void_p),
        "caudal_fake_clock_free": ((c_void_p,), None),
        "caudal_fake_clock_set": ((c_void_p, c_int64), None),
        "caudal_fake_clock_clock": ((c_void_p,), c_void_p),
        "caudal_limit_check": ((POINTER(_Limit), POINTER(_Problem)), c_int),
        "caudal_store_open": ((c_char_p, POINTER(_StoreOptions), POINTER(c_void_p), POINTER(_Problem)), c_int),
        "caudal_store_close": ((c_void_p,), None),
        "caudal_store_stats": ((c_void_p, POINTER(_StoreStats)), c_int),
        "caudal_add_limit": ((c_void_p, c_char_p, POINTER(_Limit), POINTER(c_uint32), POINTER(_Problem)), c_int),
        "caudal_find_limit": ((c_void_p, c_char_p, POINTER(c_uint32)), c_int),
        "caudal_get_limit": ((c_void_p, c_uint32, POINTER(_Limit)), c_int),
        "caudal_set_limit": ((c_void_p, c_uint32, POINTER(_Limit), POINTER(_Problem)), c_int),
        "caudal_set_limit_at": ((c_void_p, c_uint32, POINTER(_Limit), c_int64, POINTER(_Problem)), c_int),
        "caudal_remove_limit": ((c_void_p, c_uint32), c_int),
        "caudal_take": ((*key, c_uint64, POINTER(_Decision)), c_int),
        "caudal_take_at": ((*key, c_uint64, c_int64, POINTER(_Decision)), c_int),
        "caudal_peek": ((*key, c_uint64, POINTER(_Decision)), c_int),
        "caudal_peek_at": ((*key, c_uint64, c_int64, POINTER(_Decision)), c_int),
        "caudal_take_up_to": ((*key, c_uint64, c_uint64, POINTER(_Decision)), c_int),
        "caudal_take_up_to_at": ((*key, c_uint64, c_uint64, c_int64, POINTER(_Decision)), c_int),
        "caudal_refund": ((*key, c_uint64, POINTER(_Decision)), c_int),
        "caudal_refund_at": ((*key, c_uint64, c_int64, POINTER(_Decision)), c_int),
        "caudal_reset": (key, c_int),
        "caudal_take_all": ((c_void_p, POINTER(_Request), c_size_t, POINTER(_Decision), POINTER(_Decision)), c_int),
        "caudal_take_all_at": ((c_void_p, POINTER(_Request), c_size_t, c_int64, POINTER(_Decision), POINTER(_Decision)), c_int),
        "caudal_peek_all": ((c_void_p, POINTER(_Request), c_size_t, POINTER(_Decision), POINTER(_Decision)), c_int),
        "caudal_peek_all_at": ((c_void_p, POINTER(_Request), c_size_t, c_int64, POINTER(_Decision), POINTER(_Decision)), c_int),
        "caudal_take_batch": ((c_void_p, POINTER(_Request), c_size_t, POINTER(_Decision)), c_int),
        "caudal_take_batch_at": ((c_void_p, POINTER(_Request), c_size_t, c_int64, POINTER(_Decision)), c_int),
    }
    for name, (arguments, result) in prototypes.items():
        function = getattr(library, name)
        function.argtypes, function.restype = arguments, result
    return library


_lib = _load()


class CaudalError(Exception):
    """A call that returned an error. `status` is its code."""

    def __init__(self, status, message=""):
        super().__init__(f"{_lib.caudal_status_text(status).decode()} ({status}) {message}".rstrip())
        self.status = status


@dataclass(frozen=True)
class Limit:
    algorithm: str
    count: int = 0
    period_ns: int = 0
    burst: int = -1         # -1: left to the library

    @property
    def capacity(self):
        return self.burst if self.algorithm == "token_bucket" and self.burst >= 0 else self.count

    def _as_c(self):
        burst = BURST_DEFAULT if self.burst < 0 else self.burst
        return _Limit(ctypes.sizeof(_Limit), ALGORITHMS.index(self.algorithm), self.count, self.period_ns, burst)


@dataclass(frozen=True)
class Decision:
    verdict: str
    capacity: int
    granted: int
    remaining: int
    retry_after_ns: int
    reset_after_ns: int
    binding: int
    source: int
    error_bound: int
    status: int


@dataclass(frozen=True)
class Request:
    limit: int
    key: bytes
    cost: int


@dataclass(frozen=True)
class Stats:
    limits: int
    bytes: int
    slots: int
    live_keys: int
    inserted: int
    live_evictions: int


def _decision(d):
    return Decision(VERDICTS[d.verdict], d.capacity, d.granted, d.remaining, d.retry_after_ns, d.reset_after_ns, d.binding,
                    d.source, d.error_bound, d.status)


def _requests(requests):
    array = (_Request * len(requests))()
    keep = [ctypes.create_string_buffer(r.key, max(1, len(r.key))) for r in requests]   # the bytes must outlive the call
    for c, r, key in zip(array, requests, keep):
        c.limit, c.key, c.key_length, c.cost = r.limit, ctypes.addressof(key), len(r.key), r.cost
    return array, keep


def limit_check(limit):
    """The status of caudal_limit_check."""
    return _lib.caudal_limit_check(byref(limit._as_c()), None)


class Store:
    def __init__(self, url="memory:", clock_ns=0, secret=b"", deadline_ns=0):
        """`clock_ns` of None: the system's clock."""
        self._names = 0
        self._clock = None if clock_ns is None else _lib.caudal_fake_clock_new(clock_ns)
        self._store, problem = c_void_p(), _Problem()
        options = _StoreOptions(ctypes.sizeof(_StoreOptions),
                                None if self._clock is None else _lib.caudal_fake_clock_clock(self._clock), None, secret,
                                len(secret), deadline_ns)
        status = _lib.caudal_store_open(url.encode(), byref(options), byref(self._store), byref(problem))
        if status != OK:
            self.close()
        self._check(status, problem)

    def close(self):
        _lib.caudal_store_close(self._store)
        if self._clock is not None:
            _lib.caudal_fake_clock_free(self._clock)
        self._store = self._clock = None

    def set_clock(self, now_ns):
        _lib.caudal_fake_clock_set(self._clock, now_ns)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    @staticmethod
    def _check(status, problem=None):
        if status != OK:
            raise CaudalError(status, problem.message.decode() if problem is not None else "")

    def stats(self):
        s = _StoreStats(ctypes.sizeof(_StoreStats))
        self._check(_lib.caudal_store_stats(self._store, byref(s)))
        return Stats(s.limits, s.bytes, s.slots, s.live_keys, s.inserted, s.live_evictions)

    # ---- limits

    def add_limit(self, name, limit):
        number, problem = c_uint32(), _Problem()
        status = _lib.caudal_add_limit(self._store, name.encode(), byref(limit._as_c()), byref(number), byref(problem))
        self._check(status, problem)
        return number.value

    def find_limit(self, name):
        number = c_uint32()
        self._check(_lib.caudal_find_limit(self._store, name.encode(), byref(number)))
        return number.value

    def get_limit(self, number):
        c = _Limit(ctypes.sizeof(_Limit))
        self._check(_lib.caudal_get_limit(self._store, number, byref(c)))
        return Limit(ALGORITHMS[c.algorithm], c.count, c.period_ns, -1 if c.burst == BURST_DEFAULT else c.burst)

    def set_limit(self, number, limit, now=None):
        problem = _Problem()
        if now is None:
            status = _lib.caudal_set_limit(self._store, number, byref(limit._as_c()), byref(problem))
        else:
            status = _lib.caudal_set_limit_at(self._store, number, byref(limit._as_c()), now, byref(problem))
        self._check(status, problem)

    def remove_limit(self, number):
        self._check(_lib.caudal_remove_limit(self._store, number))

    @contextmanager
    def limit(self, limit):
        """A limit, by its number, for as long as it is needed."""
        self._names += 1
        number = self.add_limit(f"limit {self._names}", limit)
        try:
            yield number
        finally:
            self.remove_limit(number)

    # ---- one key

    def _decide(self, name, now, limit, key, *numbers):
        d = _Decision()
        if now is None:
            status = getattr(_lib, name)(self._store, limit, key, len(key), *numbers, byref(d))
        else:
            status = getattr(_lib, name + "_at")(self._store, limit, key, len(key), *numbers, now, byref(d))
        self._check(status)
        return _decision(d)

    def take(self, limit, key, cost=1, now=None):
        return self._decide("caudal_take", now, limit, key, cost)

    def peek(self, limit, key, cost=0, now=None):
        return self._decide("caudal_peek", now, limit, key, cost)

    def take_up_to(self, limit, key, minimum, maximum, now=None):
        return self._decide("caudal_take_up_to", now, limit, key, minimum, maximum)

    def refund(self, limit, key, tokens, now=None):
        return self._decide("caudal_refund", now, limit, key, tokens)

    def reset(self, limit, key):
        self._check(_lib.caudal_reset(self._store, limit, key, len(key)))

    # ---- several

    def _decide_all(self, name, requests, now):
        array, _keep = _requests(requests)
        each, overall = (_Decision * len(requests))(), _Decision()
        if now is None:
            status = getattr(_lib, name)(self._store, array, len(requests), each, byref(overall))
        else:
            status = getattr(_lib, name + "_at")(self._store, array, len(requests), now, each, byref(overall))
        self._check(status)
        return _decision(overall), [_decision(d) for d in each]

    def take_all(self, requests, now=None):
        """(overall, [decision per request])"""
        return self._decide_all("caudal_take_all", requests, now)

    def peek_all(self, requests, now=None):
        """(overall, [decision per request])"""
        return self._decide_all("caudal_peek_all", requests, now)

    def take_batch(self, requests, now=None):
        """(status, [decision per request]); a request that fails carries its own status."""
        array, _keep = _requests(requests)
        each = (_Decision * len(requests))()
        if now is None:
            status = _lib.caudal_take_batch(self._store, array, len(requests), each)
        else:
            status = _lib.caudal_take_batch_at(self._store, array, len(requests), now, each)
        return status, [_decision(d) for d in each]

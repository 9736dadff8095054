"""Limits that come with each call, through ctypes, and the judge of what they answer.

CAUDAL_DOOR names the library that tests/property/per_call_door.c makes.

The model is the oracle's, one object a key, whose limit is changed to each that is asked by. A window has to agree with it exactly. A
bucket's debt is kept in tokens: it may be rounded up where the rate changes, by less than a part (1/period of a token at the new
rate), and never down. So it is between the model's debt and that debt plus `carry`, and each answer has to lie between the model's
answers for these two. The books are kept by what was granted, so that rounding cannot add up unseen.
"""
import copy
import ctypes
import os
from ctypes import POINTER, byref, c_char_p, c_int, c_int64, c_uint32, c_uint64, c_void_p
from fractions import Fraction
from math import ceil

import caudal
import oracle
from judge import answer, model_limit
from strategies import move, tokens

TAKE, PEEK, SETTLE, REFUND, RESET = range(5)


class _Door(ctypes.Structure):
    _fields_ = [("store", c_void_p), ("id", c_uint32)]


def _load():
    library = ctypes.CDLL(os.environ["CAUDAL_DOOR"])
    library.door_open.argtypes, library.door_open.restype = (c_char_p, POINTER(_Door)), c_int
    library.door_close.argtypes, library.door_close.restype = (POINTER(_Door),), None
    library.door_ask.argtypes = (POINTER(_Door), POINTER(caudal._Request), c_int, c_uint64, c_uint64, POINTER(caudal._Limit),
                                 c_int64, POINTER(caudal._Decision))
    library.door_ask.restype = c_int
    return library


class Door:
    def __init__(self, url):
        self._library, self._door = _load(), _Door()
        assert self._library.door_open(url.encode(), byref(self._door)) == caudal.OK

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._library.door_close(byref(self._door))

    def ask(self, key, operation, minimum, maximum, limit, now):
        (request,), _keep = caudal._requests([caudal.Request(0, key, 0)])
        decision = caudal._Decision()
        status = self._library.door_ask(byref(self._door), byref(request), operation, minimum, maximum, byref(limit._as_c()),
                                        now, byref(decision))
        assert status == decision.status == caudal.OK
        return caudal._decision(decision)


class Undecided(Exception):
    """Whether the bucket is anchored anew hangs on less than the rounding: end the history."""


class Judge:
    def __init__(self):
        self.key, self.carry = None, Fraction(0)            # None: a key never seen

    def _begins_anew(self, limit):
        old = self.key and self.key.limit
        return old is None or old.algorithm != limit.algorithm or (limit.algorithm != "token_bucket"
                                                                   and old.period_ns != limit.period_ns)

    def _as_asked(self, t, limit):
        """The key under that limit, and the carry."""
        if self._begins_anew(limit):
            return oracle.new(model_limit(limit)), Fraction(0)
        key, carry = copy.copy(self.key), self.carry
        if limit.algorithm == "token_bucket":
            if self._converts(limit):
                carry += Fraction(1, limit.period_ns)
            key.set_limit(t, model_limit(limit))
            (least, low), (most, high) = key._debt_at(t), self._more(key, t, carry)._debt_at(t)
            if low != high:
                raise Undecided
            carry = most - least
        key.set_limit(t, model_limit(limit))
        return key, carry

    def _converts(self, limit):
        old = self.key.limit
        return Fraction(old.count, old.period_ns) != Fraction(limit.count, limit.period_ns)

    @staticmethod
    def _more(key, t, carry):
        """With the most debt that it may be."""
        other = copy.copy(key)
        if carry > 0:
            other.debt, other.last = max(Fraction(0), key.debt - (t - key.last) * key._rate()) + carry, t
        return other

    def _check(self, key, carry, t, cost, got):
        lenient, strict = key.peek(t, cost), (self._more(key, t, carry) if carry else key).peek(t, cost)
        assert got.capacity == key.limit.capacity
        if lenient.verdict == strict.verdict:
            assert got.verdict == strict.verdict
            assert strict.remaining <= got.remaining <= lenient.remaining
            assert lenient.retry_after_ns <= got.retry_after_ns <= strict.retry_after_ns
            self._check_reset(lenient, strict, got)
        elif got.verdict == "allow":
            assert lenient.verdict == "allow" and got.remaining <= lenient.remaining and got.retry_after_ns == 0
        else:
            assert got.verdict == strict.verdict and got.retry_after_ns <= strict.retry_after_ns

    @staticmethod
    def _check_reset(lenient, strict, got):
        least, most = answer(lenient)[3], answer(strict)[3]  # -1 where nothing comes back
        assert got.reset_after_ns in (least, most) or least < got.reset_after_ns < most

    def peek(self, t, cost, limit, got):
        key, carry = self._as_asked(t, limit)
        assert got.granted == 0
        self._check(key, carry, t, cost, got)

    def take(self, t, cost, limit, got):
        key, carry = self._as_asked(t, limit)
        assert got.granted == (cost if got.verdict == "allow" else 0)
        self._check(key, carry, t, cost, got)
        if got.granted == 0 and self._begins_anew(limit):
            return                                          # a refusal changes nothing
        if limit.algorithm != "token_bucket":
            key.take(t, got.granted)
            self.key, self.carry = key, Fraction(0)
            return
        debt, anchored = key._debt_at(t)
        if got.granted > 0 or anchored or self._converts(limit):
            key.debt, key.last = debt + got.granted, t
            self.key, self.carry = key, carry

    def take_up_to(self, t, minimum, maximum, limit, got):
        if got.verdict != "allow":
            return self.take(t, minimum, limit, got)
        key, carry = self._as_asked(t, limit)
        most = key.peek(t, 0).remaining
        least = (self._more(key, t, carry) if carry else key).peek(t, 0).remaining
        assert min(maximum, least) <= got.granted <= min(maximum, most) and got.granted >= minimum
        return self.take(t, got.granted, limit, got)

    def refund(self, t, n, limit, got):
        key, carry = self._as_asked(t, limit)
        assert (got.verdict, got.granted, got.retry_after_ns) == ("allow", 0, 0)
        anew = self._begins_anew(limit)
        if not anew and limit.algorithm == "token_bucket":
            high = max(Fraction(0), self._more(key, t, carry)._debt_at(t)[0] - n)
            key.refund(t, n)
            carry = high - key.debt
        elif not anew:
            key.refund(t, n)
        least, most = (self._more(key, t, carry) if carry else key).peek(t, 0), key.peek(t, 0)
        assert least.remaining <= got.remaining <= most.remaining
        self._check_reset(most, least, got)
        if not anew:
            self.key, self.carry = key, carry


def play(door, key, limit, start, steps, record):
    """Plays a history on one key, asked by `limit` and those that its steps change to; judges each answer and appends it to `record`."""
    judge, now, last = Judge(), start, None
    for step in steps:
        now = move(step.clock, now, limit, last)
        cost = tokens(step.cost, limit, last)
        record.append((now, step.what, cost, step.limit))
        if step.what == "set_limit":
            limit = step.limit
            continue
        if step.what == "reset":
            door.ask(key, RESET, 0, 0, limit, now)
            judge, last = Judge(), None
            continue
        if step.what == "take_up_to":
            most = max(cost, tokens(step.more, limit, last))
            last = door.ask(key, TAKE, cost, most, limit, now)
            arguments = (cost, most)
        else:
            operation = {"take": TAKE, "peek": PEEK, "refund": REFUND}[step.what]
            last = door.ask(key, operation, 0 if step.what == "refund" else cost, cost, limit, now)
            arguments = (cost,)
        record.append((now, *arguments, last))
        try:
            getattr(judge, step.what)(now, *arguments, limit, last)
        except Undecided:
            return

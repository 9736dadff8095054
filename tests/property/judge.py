"""Compares the decisions of a store with the reference model's, one key under one limit.

Windows and logs must agree exactly. So must a token bucket with n tokens in p nanoseconds, in lowest terms, where n is at
most 4096 and capacity·p at most 2^62: the store's clock is exact for these (src/algorithm/token_clock.h). Otherwise the
store may round one nanosecond of refill in the caller's favour, never against him (but for a clock that is set back: there it
may be a nanosecond either way). So its debt may be anything from the model's debt less `slack` to the model's debt; every
field of an answer has to lie between the model's answers for these two; and the model's books are kept by what the store has
granted, so that rounding cannot add up unseen.

A change of the limit may round again: by a nanosecond of refill, at the rate before and at the rate after; by a millionth of
a token where nothing refills after it.

A store remembers a bucket as one 64-bit reading of the limit's clock. Asked at an instant too far from the one at which the
bucket was written (years, as a rule), it still answers as the model does, but may afterwards know only that the bucket is
full, or far below empty. A history that goes back on such a leap goes on with a fresh key.
"""
from fractions import Fraction
from math import ceil, gcd

import oracle
from strategies import move, tokens

INT64_MAX, UINT64_MAX = 2**63 - 1, 2**64 - 1


class Undecided(Exception):
    """What the model does hangs on less than the rounding here, in a way that cannot be followed: end the history."""


def model_limit(limit):
    return oracle.Limit(limit.algorithm, limit.count, limit.period_ns, limit.burst)


def has_exact_clock(limit):
    divisor = gcd(limit.count, limit.period_ns)
    return limit.count == 0 or (limit.count // divisor <= 4096 and limit.capacity * (limit.period_ns // divisor) <= 2**62)


def reach_ns(limit, as_made):
    """How far from the instant at which it was written a bucket can be told exactly: 2^61 units of the limit's clock."""
    n = limit.count // gcd(limit.count, limit.period_ns)
    return 2**61 // max(n if n <= 4096 else 16, 16 if as_made else 64)


def answer(d):
    """What the model and the store both say; waits as far as an int64_t can say them."""
    return d.verdict, d.remaining, min(d.retry_after_ns, INT64_MAX), min(d.reset_after_ns, INT64_MAX)


class Judge:
    def __init__(self, limit):
        self._begin(limit)

    def _begin(self, limit):
        """A key never seen."""
        self.limit = limit
        self.key = oracle.new(model_limit(limit)) if limit.algorithm != "unlimited" else None
        self.made_as_is = True                              # the clock was made for this limit, and not for one before it
        self.exact = has_exact_clock(limit) if limit.algorithm == "token_bucket" else True
        self.carried = Fraction(0)                          # tokens that earlier rounding may have taken off the debt
        self.latest = None                                  # the latest instant at which the bucket was written
        self.full_since = None                              # see vague
        self.lost = False                                   # see vague

    # ---- a token bucket's debt, give or take

    def _rate(self):
        return Fraction(self.limit.count, self.limit.period_ns)

    def _slack(self):
        return self.carried + (0 if self.exact else self._rate())

    def _late(self, t):
        return Fraction(0) if self.exact or self.latest is None or t >= self.latest else self._rate()

    def _bucket(self, debt, t):
        key = oracle.new(self.key.limit)
        key.debt, key.last = max(Fraction(0), debt), t
        return key

    def _debt_at(self, t):
        """The model's debt."""
        if self.key.last is None:
            return Fraction(0)
        debt = max(Fraction(0), self.key.debt - (t - self.key.last) * self._rate())
        self._leap(t)
        near = (debt - self._slack(), debt, debt + self._slack())
        if len({self._bucket(d, t)._debt_at(t)[1] for d in near}) > 1:
            raise Undecided                                 # whether it is anchored anew
        return self.key._debt_at(t)[0]

    def _leap(self, t):
        """Notes that the bucket was looked at from far away."""
        reach = reach_ns(self.limit, self.made_as_is)
        self.lost = self.lost or t < self.latest - reach
        if t > self.latest + reach:
            self.full_since = t if self.full_since is None else max(t, self.full_since)

    def _ends(self, t, debt):
        """The model's buckets with the least and the most debt that the store may have for `debt`."""
        return self._bucket(debt - self._slack(), t), self._bucket(debt + self._late(t), t)

    def _check_reset(self, t, debt, got):
        rate = self._rate()
        least, most = (0 if d <= 0 else ceil(d / rate) if rate else -1 for d in (debt - self._slack(), debt + self._late(t)))
        assert got.reset_after_ns in (least, most) or least < got.reset_after_ns < most

    def _check_bucket(self, t, cost, got):
        """`got` is what the store answered to a peek or take of `cost`."""
        debt = self._debt_at(t)
        lenient, strict = (key.peek(t, cost) for key in self._ends(t, debt))
        if strict.verdict == lenient.verdict:
            assert got.verdict == strict.verdict
            assert strict.remaining <= got.remaining <= lenient.remaining
            assert lenient.retry_after_ns <= got.retry_after_ns <= strict.retry_after_ns
        elif got.verdict == "allow":
            assert lenient.verdict == "allow"
            assert 0 <= got.remaining <= lenient.remaining
            assert got.retry_after_ns == 0
        else:
            assert got.verdict == strict.verdict
            assert strict.remaining <= got.remaining <= max(0, cost - 1)
            assert 0 < got.retry_after_ns <= strict.retry_after_ns or got.retry_after_ns == strict.retry_after_ns == -1
        self._check_reset(t, debt + cost if got.verdict == "allow" else debt, got)

    def _write(self, t, debt, afresh):
        """Enters a debt into the books; `afresh` when it does not depend on what was there."""
        if afresh:
            self.carried, self.latest = Fraction(0), t
        self.key.debt, self.key.last, self.latest = debt, t, max(t, self.latest)
        self.full_since, self.lost = None, False

    def _charge(self, t, granted):
        debt, anew = self.key._debt_at(t)
        if granted > 0 or anew:
            self._write(t, debt + granted, debt == 0 or anew)

    # ---- what the store answered to each operation

    def _check_common(self, got):
        assert got.status == 0 and got.source == 0 and got.binding == 0 and got.error_bound == 0
        assert got.capacity == (UINT64_MAX if self.key is None else self.limit.capacity)

    def _check_unlimited(self, got, granted):
        assert answer(got) == ("allow", UINT64_MAX, 0, 0)
        assert got.granted == granted

    def peek(self, t, cost, got):
        self._check_common(got)
        if self.key is None:
            return self._check_unlimited(got, 0)
        assert got.granted == 0
        if self.limit.algorithm == "token_bucket":
            self._check_bucket(t, cost, got)
        else:
            assert answer(got) == answer(self.key.peek(t, cost))

    def take(self, t, cost, got):
        self._check_common(got)
        if self.key is None:
            return self._check_unlimited(got, cost)
        assert got.granted == (cost if got.verdict == "allow" else 0)
        if self.limit.algorithm == "token_bucket":
            self._check_bucket(t, cost, got)
            self._charge(t, got.granted)
        else:
            assert answer(got) == answer(self.key.take(t, cost))

    def take_up_to(self, t, minimum, maximum, got):
        if self.key is None:
            return self.take(t, maximum, got)
        if got.verdict != "allow":                          # the refusal that a take of the minimum gives
            return self.take(t, minimum, got)
        assert minimum <= got.granted <= maximum
        least = most = self.key.peek(t, 0).remaining
        if self.limit.algorithm == "token_bucket":
            most, least = (key.peek(t, 0).remaining for key in self._ends(t, self._debt_at(t)))
        assert min(maximum, least) <= got.granted <= min(maximum, most)
        self.take(t, got.granted, got)

    def refund(self, t, n, got):
        """A refund is never refused, though the key may hold less than nothing, after a limit was lowered."""
        self._check_common(got)
        if self.key is None:
            return self._check_unlimited(got, 0)
        assert (got.verdict, got.granted, got.retry_after_ns) == ("allow", 0, 0)
        if self.limit.algorithm == "token_bucket":
            debt = max(Fraction(0), self._debt_at(t) - n)
            most, least = (key.peek(t, 0).remaining for key in self._ends(t, debt))
            assert least <= got.remaining <= most
            self._check_reset(t, debt, got)
            if self.key.last is not None:
                self._write(t, debt, False)
            elif self.full_since is not None:               # a full bucket that may have been remembered: full since now
                self.full_since = max(t, self.full_since)
        else:
            seen = self.key.log if self.limit.algorithm == "sliding_log" else self.key.index is not None
            if seen:                                        # nothing is written for a key never seen
                self.key.refund(t, n)
            after = self.key.peek(t, 0)
            assert (got.remaining, got.reset_after_ns) == (after.remaining, min(after.reset_after_ns, INT64_MAX))

    def reset(self):
        clock = self.exact, self.made_as_is
        self._begin(self.limit)
        self.exact, self.made_as_is = clock                 # the limit's clock stays what it was

    def set_limit(self, t, limit):
        if limit.algorithm != self.limit.algorithm or self.key is None:
            self._begin(limit)
            return
        if limit.algorithm != "token_bucket":
            self.limit = limit
            self.key.set_limit(t, model_limit(limit))
            return
        slack = self._slack() + self._rate()
        if self.key.last is not None:
            self._leap(t)
        self.key.set_limit(t, model_limit(limit))
        self.limit = limit
        self.exact = self.made_as_is = False                # a clock that goes on at another rate may need fractions
        if self.key.last is None:
            self.full_since = None if self.full_since is None else max(t, self.full_since)
            return
        if self.key.debt - limit.capacity > self._rate() * reach_ns(limit, False):
            self.lost = True                                # far below empty, and that is all a store may know
        if self.key.debt == 0:
            self.key, self.carried, self.latest, self.full_since = oracle.new(model_limit(limit)), Fraction(0), None, t
        else:
            self.latest = max(t, self.latest)
            self.carried = slack + (Fraction(1, 2**20) if limit.count == 0 else 0)

    def vague(self, t):
        """True where the store may know more than the model, or less.

        After a change of the limit a full bucket may have been forgotten, or be remembered as full since then or since
        before: the same from that instant on, but not to a clock that is set back to before it. And see _leap.
        """
        return self.lost or (self.full_since is not None and t < self.full_since)


def play(store, number, limit, start, steps, record):
    """Plays a history on one key under a limit that was added as `number`; judges each answer and appends it to `record`."""
    judge, now, last, key = Judge(limit), start, None, b"key"
    for step in steps:
        now = move(step.clock, now, judge.limit, last)
        cost = tokens(step.cost, judge.limit, last)
        if judge.vague(now):
            store.reset(number, key)
            record.append((now, "reset"))
            judge.reset()
        if step.what == "reset":
            store.reset(number, key)
            record.append((now, "reset"))
            judge.reset()
            continue
        if step.what == "set_limit":
            store.set_limit(number, step.limit, now)
            arguments = (step.limit,)
        elif step.what == "take_up_to":
            maximum = max(cost, tokens(step.more, judge.limit, last))
            last = store.take_up_to(number, key, cost, maximum, now)
            arguments = (cost, maximum, last)
        else:
            last = getattr(store, step.what)(number, key, cost, now)
            arguments = (cost, last)
        record.append((now, step.what, *arguments))
        try:
            getattr(judge, step.what)(now, *arguments)
        except Undecided:
            return


def explain(limit, record):
    """A history in full."""
    return "\n".join([f"{limit}", *(f"  at {now} {what} {' '.join(map(str, rest))}" for now, what, *rest in record)])

"""Random histories of keys through a real store, on the caller's clock, judged by the reference model.

    python3 tests/redis/histories.py URL SEED DECISIONS

plays histories until so many decisions were taken, and prints how many there were. The first answer that differs from the
model's ends it with the history that led there; the seed leads there again, in a store that is empty. The environment variable
CAUDAL_LIBRARY names the library.

Every instant is a whole microsecond, as in a store that counts in microseconds; every answer has to be the model's, to the
nanosecond. Where this leaves the model:

  a limit that changes   is met by a take at the same instant, where the store settles what was spent: it learns of the change at
                         the next touch of a key
  a refund               that leaves nothing behind makes the key one never seen; the model would remember the instant. The
                         difference shows to a clock that is set back to before it, so there the key is forgotten by both
  a log                  of which nothing is given back stays as it is, with what has left the window; the model tidies it up,
                         which shows when the clock is set back or the window becomes longer
"""

import pathlib
import random
import sys
from fractions import Fraction
from math import gcd

sys.dont_write_bytecode = True
TESTS = pathlib.Path(__file__).resolve().parent.parent
sys.path += [str(TESTS / folder) for folder in ("property", "oracle")]

import caudal  # noqa: E402
import oracle  # noqa: E402
from caudal import Limit, Request  # noqa: E402

US, MS, S = 10**3, 10**6, 10**9
DAY = 86400 * S
YEAR = 365 * DAY
T0 = 1764547200 * S  # 2025-12-01T00:00:00Z
END = T0 + 80 * YEAR  # the instants of a store end in the year 2112, and a bucket may take decades to be full again
STEPS = 50  # of a history
PERIODS = [MS, 7 * MS, S, S, S, 7 * S, 999_937 * US, 60 * S, 60 * S, 3600 * S, DAY, 30 * DAY]
ALGORITHMS = ("token_bucket", "token_bucket", "fixed_window", "sliding_window", "sliding_log")


class Differs(Exception):
    pass


def draw_limit(rng, algorithm=None):
    algorithm = algorithm or rng.choice(ALGORITHMS)
    period = rng.choice(PERIODS)
    count = min(rng.choice([rng.randint(1, 5), rng.randint(1, 20), rng.randint(1, 1000)]), period // US)
    if algorithm == "token_bucket":
        burst = rng.choice([count, rng.randint(0, 10), rng.randint(1, 2000)])
        count = 0 if rng.random() < 0.03 else count
        return Limit(algorithm, count, period, min(burst, 30 * YEAR * count // period) if count else burst)
    return Limit(algorithm, min(count, 60) if algorithm == "sliding_log" else count, period)


def keeps_exactly(limit, other):
    """Whether a bucket's debt under `limit` has a fraction under `other` that 52 bits can hold: docs/formats/redis.md, "A bucket's rate"."""
    if limit.algorithm != "token_bucket":
        return True
    (n1, d1), (n, d) = (Fraction(each.count * US, each.period_ns).as_integer_ratio() if each.count else (1, 1)
                        for each in (limit, other))
    k = d1 // gcd(d, d1)
    return max(n * k, d * k, n1 // gcd(n1, n) * (d // gcd(d, d1))) <= 2**52


def model_of(limit):
    return oracle.new(oracle.Limit(limit.algorithm, limit.count, limit.period_ns, limit.burst))


def whole_us(ns):
    return -(-ns // US) * US


def answer(d):
    return d.verdict, d.remaining, d.retry_after_ns, d.reset_after_ns


class Key:
    """One key under one limit, in the store and in the model."""

    def __init__(self, store, name, limit):
        self.store, self.limit, self.number, self.key = store, limit, store.add_limit(name, limit), b"k{}"
        self.model, self.last = model_of(limit), None
        self.emptied = False  # the model remembers a state that is that of a key never seen, and a store need not
        self.rates = 1  # that the state has been kept at; a bucket's is exact at the first and the second

    def forget(self):
        self.store.reset(self.number, self.key)
        self.model, self.emptied, self.rates = model_of(self.limit), False, 1

    def settle(self, now):
        """A bucket that is anchored anew is, also where another limit refuses the whole."""
        if isinstance(self.model, oracle.TokenBucket):
            debt, anew = self.model._debt_at(now)
            if anew:
                self.model.debt, self.model.last = debt, now

    def cost(self, rng):
        left = self.last.remaining if self.last is not None else self.limit.capacity
        return max(0, rng.choice([1, 1, 1, 2, rng.randint(0, 8), left, left + 1, self.limit.capacity,
                                  self.limit.capacity + 1, self.limit.capacity // 2]))

    def move(self, rng, now):
        """The next instant: the interesting ones are those at which something becomes due."""
        last, period = self.last, self.limit.period_ns
        kind = rng.random()
        if kind < 0.35:
            return now
        if kind < 0.55 and last is not None and last.retry_after_ns > 0:
            return whole_us(now + last.retry_after_ns) + rng.choice([-US, 0, 0, US])
        if kind < 0.65 and last is not None and last.reset_after_ns > 0:
            return whole_us(now + last.reset_after_ns) + rng.choice([-US, 0, US])
        if kind < 0.8:
            return whole_us(now + rng.randint(1, 20) * period // max(1, self.limit.count))
        if kind < 0.87:
            return whole_us((now // period + 1) * period) + rng.choice([-US, 0, US])
        if kind < 0.93:
            return now + rng.randint(1, 3) * period // US * US
        return now - rng.choice([US, 3 * US, MS, S, 59 * S, 61 * S, period // US * US, 3 * period // US * US])


class History:
    def __init__(self, store, seed):
        self.rng, self.store, self.record, self.decisions = random.Random(seed), store, [], 0
        self.now = T0 + self.rng.randrange(30 * DAY // US) * US
        count = self.rng.choice([1, 1, 1, 2, 3])
        self.keys = [Key(store, f"{seed} {i}", draw_limit(self.rng)) for i in range(count)]

    def play(self):
        try:
            for _ in range(STEPS):
                self.step(self.rng.choice(self.keys))
        finally:
            for key in self.keys:
                self.store.remove_limit(key.number)

    def step(self, key):
        rng = self.rng
        now = min(key.move(rng, self.now), END)
        for one in self.keys:
            if now < self.now and one.emptied:
                one.forget()
        self.now = now
        kind = rng.random()
        if len(self.keys) > 1 and kind < 0.5:
            self.take_all()
        elif kind < 0.65:
            self.take(key, key.cost(rng))
        elif kind < 0.75:
            cost = key.cost(rng)
            self.compare(key, ("peek", cost), key.model.peek(now, cost), self.store.peek(key.number, key.key, cost, now), 0)
        elif kind < 0.87:
            self.take_up_to(key)
        elif kind < 0.94:
            self.refund(key, key.cost(rng))
        elif kind < 0.96:
            self.record.append((now, key.number, "reset"))
            key.forget()
        else:
            self.set_limit(key)

    def compare(self, key, what, want, got, granted):
        self.decisions += 1
        self.record.append((self.now, key.number, what, got))
        if (answer(got), got.granted, got.capacity) != (answer(want), granted, key.limit.capacity):
            raise Differs(f"the model says {want}, granted {granted}")
        key.last = got

    def take(self, key, cost):
        want = key.model.take(self.now, cost)
        self.note_charge(key, want, cost)
        self.compare(key, ("take", cost), want, self.store.take(key.number, key.key, cost, self.now),
                     cost if want.verdict == "allow" else 0)

    @staticmethod
    def note_charge(key, want, cost):
        if want.verdict == "allow" and cost > 0:
            key.emptied = False

    def take_up_to(self, key):
        least, most = sorted((key.cost(self.rng), key.cost(self.rng)))
        got = self.store.take_up_to(key.number, key.key, least, most, self.now)
        seen = key.model.peek(self.now, least)
        cost = least
        if seen.verdict == "allow":
            # Of a bucket that a lowered limit left in debt, nothing at all is asked for.
            cost = max(least, min(most, key.model.peek(self.now, 0).remaining))
        want = key.model.take(self.now, cost)
        self.note_charge(key, want, cost)
        self.compare(key, ("take_up_to", least, most), want, got, cost if want.verdict == "allow" else 0)

    def refund(self, key, tokens):
        got = self.store.refund(key.number, key.key, tokens, self.now)
        is_log = isinstance(key.model, oracle.SlidingLog)
        if not is_log or (tokens > 0 and key.model.peek(self.now, 0).remaining < key.limit.capacity):
            key.model.refund(self.now, tokens)
        after = key.model.peek(self.now, 0)
        key.emptied = key.emptied or (after.reset_after_ns == 0 and not (is_log and key.model.log))
        self.compare(key, ("refund", tokens), oracle.Decision("allow", after.remaining, 0, after.reset_after_ns), got, 0)

    def take_all(self):
        costs = [key.cost(self.rng) for key in self.keys]
        calls = [Request(key.number, key.key, cost) for key, cost in zip(self.keys, costs)]
        overall, each = self.store.take_all(calls, self.now)
        for key in self.keys:
            key.settle(self.now)
        verdict, want = oracle.take_all(self.now, [key.model for key in self.keys], costs)
        if overall.verdict != verdict:
            raise Differs(f"at {self.now}: take_all of {costs} is {overall}, the model says {verdict}")
        for key, cost, one, got in zip(self.keys, costs, want, each):
            if verdict == "allow":
                self.note_charge(key, one, cost)
            self.compare(key, ("of take_all", cost), one, got, cost if verdict == "allow" else 0)

    def set_limit(self, key):
        if key.limit.algorithm == "token_bucket":
            key.rates += 1
        limit = draw_limit(self.rng, key.limit.algorithm)
        if key.rates > 2 or not keeps_exactly(key.limit, limit):
            key.forget()
        key.limit = limit
        self.record.append((self.now, key.number, "set_limit", key.limit))
        self.store.set_limit(key.number, key.limit, self.now)
        key.model.set_limit(self.now, oracle.Limit(key.limit.algorithm, key.limit.count, key.limit.period_ns, key.limit.burst))
        self.take(key, 1 if "window" in key.limit.algorithm else 0)
        key.emptied = key.emptied or key.model.peek(self.now, 0).reset_after_ns == 0


def main(url, seed, decisions):
    done, number = 0, 0
    with caudal.Store(url, deadline_ns=20 * S) as store:
        while done < decisions:
            history = History(store, f"{seed}.{number}")
            limits = [key.limit for key in history.keys]
            try:
                history.play()
            except (Differs, caudal.CaudalError) as problem:
                print(f"history {seed}.{number} of {limits}: {problem}", *history.record, sep="\n  ")
                return 1
            done, number = done + history.decisions, number + 1
    print(done)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))

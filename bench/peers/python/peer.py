"""limits, by the protocol of bench/peers/PROTOCOL.md: its fixed windows, in memory or through a Redis.

One thread decides at a time in Python: --threads is of use through a Redis only."""
import argparse
import bisect
import gc
import importlib.metadata
import json
import os
import sys
import threading
import time

import limits
import limits.storage
import limits.strategies


def key_name(key):
    return f"user:{key:08d}"


class Draws:
    """The keys that are drawn, and which limit each is under."""

    def __init__(self, settings):
        self.settings = settings
        zipf = settings.distribution == "zipf"
        self.weights = [(key + 1.0) ** -1.1 if zipf else 1.0 for key in range(settings.keys)]
        self.tight = list(self.choose_tight(settings.refused))
        self.drawn = [(key_name(key), self.tight[key]) for key in (self.draw_zipf() if zipf else self.draw_uniform())]

    def choose_tight(self, percent):
        whole = part = 0.0
        for weight in self.weights:
            whole += weight
            is_tight = (part + weight / 2) * 100 <= percent * whole
            part += weight if is_tight else 0
            yield is_tight

    def numbers(self):
        x = 2463534242
        for _ in range(self.settings.draws):
            x ^= x << 13 & 0xffffffff
            x ^= x >> 17
            x ^= x << 5 & 0xffffffff
            yield x

    def draw_uniform(self):
        return (x * self.settings.keys >> 32 for x in self.numbers())

    def draw_zipf(self):
        sums, last = [], 0.0
        for weight in self.weights:
            last += weight
            sums.append(last)
        return (min(bisect.bisect_right(sums, x / 4294967296 * last), len(sums) - 1) for x in self.numbers())


def resident_bytes():
    gc.collect()
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")


def run(limiter, items, draws, job, settings):
    hit, drawn, at_once = limiter.hit, draws.drawn, 16 if settings.store else 256
    job["began"] = job["ended"] = time.monotonic()
    while job["ended"] - job["began"] < settings.seconds:
        for _ in range(at_once):
            key, is_tight = drawn[job["next"] % len(drawn)]
            job["next"] += 1
            allowed = hit(items[is_tight], key)
            job["refused"] += not allowed
            job["wrong"] += allowed == is_tight
        job["decisions"] += at_once
        job["ended"] = time.monotonic()


def part(limiter, items, draws, starts, settings):
    jobs = [{"next": start, "decisions": 0, "refused": 0, "wrong": 0} for start in starts]
    before = time.process_time()
    threads = [threading.Thread(target=run, args=(limiter, items, draws, job, settings)) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    told = {key: sum(job[key] for job in jobs) for key in ("decisions", "refused", "wrong")}
    told["seconds"] = max(job["ended"] for job in jobs) - min(job["began"] for job in jobs)
    told["cpu_seconds"] = time.process_time() - before
    print(json.dumps(told), flush=True)
    return [job["next"] for job in jobs]


def read_settings():
    parser = argparse.ArgumentParser()
    parser.add_argument("library", choices=["limits"])
    parser.add_argument("--keys", type=int, default=1)
    parser.add_argument("--draws", type=int, default=1 << 22)
    parser.add_argument("--refused", type=int, default=0, help="percent")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--distribution", choices=["uniform", "zipf"], default="uniform")
    parser.add_argument("--seconds", type=float, default=1, help="of a part")
    parser.add_argument("--store", help="URL of a Redis")
    return parser.parse_args()


def main():
    settings = read_settings()
    draws = Draws(settings)
    before = resident_bytes()
    storage = limits.storage.storage_from_string(settings.store or "memory://")
    limiter = limits.strategies.FixedWindowRateLimiter(storage)
    items = (limits.RateLimitItemPerDay(10 ** 9), limits.RateLimitItemPerDay(1))  # by whether it is tight
    for key, is_tight in enumerate(draws.tight):
        limiter.hit(items[is_tight], key_name(key))
    print(json.dumps({"library": settings.library, "version": importlib.metadata.version("limits"), "rss_before": before,
                      "rss_after": resident_bytes()}), flush=True)
    starts = [i * settings.draws // settings.threads for i in range(settings.threads)]
    for _ in sys.stdin:
        starts = part(limiter, items, draws, starts, settings)
    os._exit(0)  # a storage in memory has a timer, which would be waited for


if __name__ == "__main__":
    main()

"""bench/RESULTS.md, made from what bench/peers.py measured; and a row as text, while it runs."""
import json
import pathlib

# What is shown of a row: by the first word of its name, (key, title, factor, digits); the first is what ratios are of, and whether more
# of it is better.
COLUMNS = {
    "single": [("per_second", "million decisions a second", 1e-6, 2), ("cpu_ns", "ns of processor a decision", 1, 0)],
    "keyed": [("per_second", "million decisions a second", 1e-6, 2), ("cpu_ns", "ns of processor a decision", 1, 0),
              ("refused", "refused %", 100, 1)],
    "memory": [("bytes_per_key", "bytes a key", 1, 1)],
    "redis": [("per_second", "thousand decisions a second", 1e-3, 1), ("store_cpu_us", "us of the Redis's processor a decision", 1, 2),
              ("cpu_ns", "ns of the client's processor a decision", 1, 0), ("refused", "refused %", 100, 1)],
    "resp": [("per_cpu_second", "thousand requests a second of processor", 1e-3, 0), ("per_second", "thousand requests a second", 1e-3, 0),
             ("p99_ms", "p99 ms, as fast as it goes", 1, 3)],
    "http": [("cpu_us", "us of processor a request", 1, 2), ("per_second", "thousand requests a second", 1e-3, 1),
             ("refused", "refused %", 100, 1)],
    "grpc": [("a second of processor", "thousand decisions a second of processor", 1e-3, 1),
             ("a second", "thousand decisions a second", 1e-3, 1)],
    "latency": [("p50_us", "p50 us", 1, 0), ("p90_us", "p90 us", 1, 0), ("p99_us", "p99 us", 1, 0), ("p999_us", "p99.9 us", 1, 0),
                ("driver_p99_us", "driver's own p99 us", 1, 0), ("rate held", "rate held %", 100, 1)],
    "limits": [("cpu_ns", "ns of processor a decision", 1, 0)],
    "flood": [("p99_us", "p99 us of the others", 1, 0), ("p50_us", "p50 us of the others", 1, 0), ("busy", "processors busy", 1, 2)],
    "leased": [("per_second", "thousand decisions a second", 1e-3, 0), ("calls", "questions to the Redis a decision", 1, 4),
               ("p99_us", "p99 us", 1, 2)],
    "replay": [("per_cpu_second", "million lines a second of processor", 1e-6, 2), ("per_second", "million lines a second", 1e-6, 2),
               ("memory_mb", "MiB at most", 1, 0)],
    "standing": [("start_ms", "ms to the first connection", 1, 1), ("idle_bytes", "MiB resident when idle", 1 / (1 << 20), 1),
                 ("program_bytes", "MiB of the program on disk", 1 / (1 << 20), 2)],
}
COLUMNS["one"] = COLUMNS["keyed"]
LESS_IS_BETTER = ("bytes_per_key", "cpu_us", "start_ms", "idle_bytes", "program_bytes", "store_cpu_us", "p50_us", "p90_us", "p99_us", "p999_us", "memory_mb", "busy")

SECTIONS = [
    ("single", "One limiter in a process", "Those that have a limiter without keys. Ours has none: it is asked for one key."),
    ("keyed", "Keyed limiters in a process", "Two threads on two processors, or one. `caudal batch of 16` is the same store, asked for 16 "
     "keys at a time."),
    ("one thread", "Keyed limiters in a process, of languages with one thread", ""),
    ("memory", "Memory of a key", "Growth of the resident set after every key came in once, each in a process of its own; keys are 13 bytes. "
     "Libraries that keep the key itself keep it for ever; ours keeps a tag. What could not hold 10 million keys in this machine or in "
     "reasonable time is measured with 1 million."),
    ("redis", "Through a Redis", "32 questions wait at once; all in one Redis, in turns. Ratios below are of decisions a second; what the "
     "Redis spends is what all who share it compete for."),
    ("resp", "Over RESP", "redis-benchmark, 50 connections, 100,000 keys; `redis` answers SET, the others decide. One worker each."),
    ("http", "Over HTTP, as a proxy asks", "wrk, 32 connections. nginx by limit_req, HAProxy by a stick table, throttlecrab by JSON. One "
     "worker each."),
    ("grpc", "Over gRPC, as Envoy asks", "h2load, 50 connections with one call under way each. A second of processor is of the service and "
     "of its Redis together. `limitador` is a service on its library, since its own server is not to be had as a package."),
    ("latency", "Time to an answer at a fixed load", "Counted from when a question was due (no coordinated omission). `same load`: half of "
     "what the slowest of them can do. `half of ours`: half of what ours can do, beside an empty loop: a server that reads and answers "
     "without looking."),
    ("limits", "Policies of many limits", "The whole limiter, in memory: which limits apply to a request, and one of them decides. Ratios "
     "are to the policy of 10."),
    ("flood", "Floods of refusals", "One client sends two fifths of what the server can do, and others ask at a small steady rate. Ratios are "
     "of the refused flood to the others."),
    ("leased", "A hot key", "In one process, with a Redis that is shared by others: leased for 100 ms, or asked each time; and a store in "
     "memory. Ratios are leased / the other."),
    ("replay", "Trying a policy on a log", "Each on one processor. `reader` parses and sorts and does nothing else; goaccess and awk (requests "
     "counted by client) do not decide anything."),
    ("standing", "What a server needs to stand there", "Shared libraries are not counted with a program."),
]

METHOD = """\
- Within a row all take turns, A B A B …, after a warm-up round that is not counted. Told are medians, with the lowest and the highest round in
  parentheses. A ratio is ours / theirs, round by round, and its median.
- Driver and server share the machine's processors; so the processor time of the server stands beside what it did in a second.
- In a process every program draws the same keys and has the same verdicts to give ([peers/PROTOCOL.md](peers/PROTOCOL.md)); a program that
  gives others is not shown. Keys are drawn uniformly or by Zipf's law with exponent 1.1.
- Every peer is used as its documentation shows, in the version that is pinned in [peers](peers). Where a peer leaves something to who uses
  it, the choice was made for speed: 64 shards where it has one lock, Java's parallel collector.
"""


def columns_of(name):
    return COLUMNS[name.split("/")[0].split(" ")[0]]


def cell(value, factor, digits):
    median, lowest, highest = (value[key] * factor for key in ("median", "lowest", "highest"))
    if f"{lowest:.{digits}f}" == f"{highest:.{digits}f}":
        return f"{median:.{digits}f}"
    return f"{median:.{digits}f} ({lowest:.{digits}f}–{highest:.{digits}f})"


def ratio_of(row, name, key):
    """Ratios are of one key, or of several by name."""
    ratio = row["ratios"].get(name)
    return ratio if ratio is None or "median" in ratio else ratio.get(key)


def as_text(row):
    """A row that was measured just now, in a few lines."""
    lines = []
    for name, measured in row["measured"].items():
        ratio = row["ratios"].get(name, {})
        shown = {"": ratio} if "median" in ratio else ratio
        values = ", ".join(f"{key} {value['median']:.4g}" for key, value in measured.items())
        told = ", ".join(f"{key} {value['median']:.2f}" for key, value in shown.items())
        lines.append(f"    {name:22}{values}" + (f"   [caudal / it: {told.strip()}]" if told else ""))
    lines += [f"    {name:22}missing: {why}" for name, why in row.get("missing", {}).items()]
    return "\n".join(lines)


# ---- where we lose


def is_lost(key, ratio):
    """By more than the noise: even the best round was on the other side."""
    return ratio["lowest"] > 1 if key in LESS_IS_BETTER else ratio["highest"] < 1


def ratios_of(name, row):
    """(whose, key, title, ratio) of all ratios of a row."""
    titles = {key: title for key, title, _, _ in columns_of(name)}
    first = next(iter(titles))
    for whose, ratio in row["ratios"].items():
        for key, value in ({first: ratio} if "median" in ratio else ratio).items():
            yield whose, key, titles.get(key, key), value
    for whose, value in row.get("store_ratios", {}).items():
        yield whose, "store_cpu_us", titles["store_cpu_us"], value


def losses(rows):
    for name, row in rows.items():
        if name.split("/")[0] in ("limits", "flood", "leased"):
            continue  # they stand beside ourselves
        for whose, key, title, ratio in ratios_of(name, row):
            if whose != "empty loop" and is_lost(key, ratio):
                yield f"- {name}: {title}, {ratio['median']:.2f} times that of {whose} ({ratio['lowest']:.2f}–{ratio['highest']:.2f})"


# ---- the page


def settings_text(row):
    return ", ".join(f"{key} {value}" for key, value in row["settings"].items() if value is not True)


def table(name, row):
    columns = [column for column in columns_of(name) if any(column[0] in measured for measured in row["measured"].values())]
    head = ["", *(title for _, title, _, _ in columns), f"ours / theirs: {columns[0][1]}"]
    lines = [f"| {' | '.join(head)} |", "|---|" + "---:|" * (len(head) - 1)]
    for whose, measured in row["measured"].items():
        ratio = ratio_of(row, whose, columns[0][0])
        cells = [cell(measured[key], factor, digits) if key in measured else "" for key, _, factor, digits in columns]
        lines.append(f"| {whose} | {' | '.join(cells)} | {cell(ratio, 1, 2) if ratio else ''} |")
    notes = [f"- {whose}: {ratio_title} {cell(ratio, 1, 2)}" for whose, ratio_title, ratio in other_ratios(name, row, columns[0][0])]
    notes += [f"- {whose} is missing: {why}" for whose, why in row.get("missing", {}).items()]
    return "\n".join(lines) + ("\n\n" + "\n".join(notes) if notes else "")


def other_ratios(name, row, shown):
    """What does not stand in the last column: ratios of other keys, and of names that are no rows of the table."""
    for whose, key, title, ratio in ratios_of(name, row):
        if key != shown or whose not in row["measured"]:
            yield whose, f"ours / theirs, {title}:", ratio


def section(prefix, title, text, rows):
    mine = {name: row for name, row in rows.items() if name.split("/")[0] == prefix}
    if not mine:
        return ""
    parts = [f"## {title}", *([text] if text else [])]
    for name, row in mine.items():
        told = settings_text(row)
        parts.append(f"**{name}**" + (f" — {told}" if told else "") + f"; {row['rounds']} rounds")
        parts.append(table(name, row))
    return "\n\n".join(parts) + "\n"


def versions_text(results):
    peers = {}
    for row in results["rows"].values():
        peers.update(row.get("versions", {}))
    lines = [f"- {name}: {line}" for name, line in results.get("tools", {}).items()]
    lines += [f"- {name} {version}" for name, version in sorted(peers.items()) if not name.startswith("caudal")]
    return "\n".join(lines)


def missing_text(path):
    installed = json.loads(pathlib.Path(path).read_text(encoding="utf-8")) if pathlib.Path(path).exists() else {}
    return "\n".join(f"- {name}: {told['why']}" for name, told in installed.items() if not told["installed"])


def render(results, installed):
    rows = results["rows"]
    machine = results.get("machine", {})
    days = sorted({row["day"] for row in rows.values()})
    parts = ["# Beside the peers", "Written by `make bench-peers`; do not edit.\n\n"
             + "\n".join(f"- {key}: {value}" for key, value in machine.items())
             + f"\n- measured: {' to '.join(sorted({days[0], days[-1]})) if days else 'not yet'}, commit {results.get('commit', 'unknown')}"
             + f"\n- load of the machine when rows began: {loads(rows)}",
             "## Method", METHOD]
    parts += [text for text in (section(*one, rows) for one in SECTIONS) if text]
    parts += ["## Where we lose", "Ratios that were on the other side of 1 in every round.", "\n".join(losses(rows)) or "Nowhere."]
    missing = missing_text(installed)
    parts += ["## Not installed", missing or "Everything was."]
    parts += ["## Versions", versions_text(results)]
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def loads(rows):
    values = [row["load_before"] for row in rows.values()]
    return f"{min(values)} to {max(values)}" if values else "none"

"""The Prometheus text format (0.0.4), parsed strictly: what a scraper might trip over fails here."""

import re

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\[\\n"])*)"')
SAMPLE = re.compile(rf"({NAME})(?:\{{(.*)\}})? (\S+)$")
FOREIGN = "ratelimit_service_"  # counters that others have named, and that do not end in _total
SUFFIXES = {"histogram": ("_bucket", "_sum", "_count"), "summary": ("", "_sum", "_count")}


class Metrics:
    """Samples by name and labels: metrics["x_total", {"a": "b"}]."""

    def __init__(self, text):
        assert text.endswith("\n"), "the last line has no end"
        self.types, self.samples = {}, {}
        current = None
        for line in text[:-1].split("\n"):
            current = self._read(line, current)
        self._check_histograms()

    def _read(self, line, current):
        if line.startswith("# HELP "):
            name = line.split(" ", 3)[2]
            assert re.fullmatch(NAME, name), line
            assert name not in self.types, f"{name} is described twice, or after its samples"
            return name
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert name == current and name not in self.types, line
            assert kind in ("counter", "gauge", "histogram", "summary", "untyped"), line
            assert kind != "counter" or name.endswith("_total") or name.startswith(FOREIGN), line
            self.types[name] = kind
            return name
        assert line and not line.startswith("#"), f"neither sample nor description: {line!r}"
        name, labels, value = SAMPLE.match(line).groups()
        assert name in [current + suffix for suffix in SUFFIXES.get(self.types[current], ("",))], line
        key = (name, frozenset(parse_labels(labels or "").items()))
        assert key not in self.samples, f"twice: {line}"
        self.samples[key] = float(value)
        return current

    def _check_histograms(self):
        for name in (name for name, kind in self.types.items() if kind == "histogram"):
            series = {}
            for (sample, labels), value in self.samples.items():
                if sample == f"{name}_bucket":
                    rest = frozenset(pair for pair in labels if pair[0] != "le")
                    series.setdefault(rest, []).append((float(dict(labels)["le"].replace("+Inf", "inf")), value))
            for labels, buckets in series.items():
                assert [bound for bound, _ in buckets] == sorted({bound for bound, _ in buckets}), name
                assert [count for _, count in buckets] == sorted(count for _, count in buckets), name
                assert buckets[-1] == (float("inf"), self.samples[f"{name}_count", labels]), name

    def __getitem__(self, key):
        name, labels = (key, {}) if isinstance(key, str) else key
        return self.samples[name, frozenset(labels.items())]

    def sum(self, name, **labels):
        """The sum over the series of a name that have these labels. The name must be there."""
        assert any(sample == name for sample, _ in self.samples) or name in self.types, f"there is no {name}"
        return sum(value for (sample, found), value in self.samples.items()
                   if sample == name and labels.items() <= dict(found).items())

    def values_of(self, name, label):
        return {dict(labels)[label] for sample, labels in self.samples if sample == name and label in dict(labels)}


def parse_labels(text):
    labels, at = {}, 0
    while at < len(text):
        found = LABEL.match(text, at)
        assert found and found.group(1) not in labels, f"bad labels: {{{text}}}"
        labels[found.group(1)] = re.sub(r"\\(.)", lambda c: {"n": "\n"}.get(c.group(1), c.group(1)), found.group(2))
        at = found.end()
        if at < len(text):
            assert text[at] == ",", f"bad labels: {{{text}}}"
            at += 1
    return labels

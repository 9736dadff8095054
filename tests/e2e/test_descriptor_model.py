"""Descriptors beside a model of their rules: random files, random requests, and the same answers.

The model is what the rules say and no more: a tree is walked with lists and dictionaries, a counter is a number. It knows neither how ours
is built nor what the reference service does beyond its documentation. Windows are so long that hardly one ends while we ask.
"""

import fnmatch
import json
import random

import yaml

from client import Connection

KEYS = ["a", "b", "c"]
VALUES = ["", "x", "y", "xy", "xyz", "yx", "zz"]
PATTERNS = ["", "", "x", "y", "xy", "*", "x*", "*y", "x*z", "y*", "*x*"]
LIMITS = [0, 1, 2, 3, 5, 10, 40, 2**32 - 1]
UNITS = ["DAY", "WEEK", "MONTH", "YEAR"]
NAMES = ["n1", "n2", "n3"]
HITS = [0, 0, 1, 1, 2, 3, 4, 11, 2**32 - 1]
MOST = 2**32 - 1  # that a response can say is left
DOMAINS = 30
REQUESTS = 60  # about each domain


# ---------------------------------------------------------------------------------------------------------- random files

def random_limit(chance):
    if chance.random() < 0.08:
        return {"unlimited": True}
    made = {"unit": chance.choice(UNITS).lower(), "requests_per_unit": chance.choice(LIMITS)}
    if chance.random() < 0.4:
        made["name"] = chance.choice(NAMES)
    if chance.random() < 0.2:
        made["replaces"] = [{"name": chance.choice([name for name in NAMES if name != made.get("name")])}]
    return made


def random_tree(chance, depth=1):
    made = {}
    for _ in range(chance.randint(2, 6)):
        key, value = chance.choice(KEYS), chance.choice(PATTERNS)
        node = {"key": key, **({"value": value} if value else {})}
        if chance.random() < 0.8:
            node["rate_limit"] = random_limit(chance)
            if "unit" in node["rate_limit"] and chance.random() < 0.3:
                node["count_refused"] = True
        if chance.random() < 0.3:
            node[chance.choice(["shadow_mode", "quota_mode"])] = True
        if "*" in value and chance.random() < 0.4:
            node["share_threshold"] = True
        if depth < 3 and chance.random() < 0.4:
            node["descriptors"] = random_tree(chance, depth + 1)
        made.setdefault((key, value), node)
    return list(made.values())


def random_request(chance, domain):
    made = {"domain": domain if chance.random() < 0.98 else "nowhere", "descriptors": []}
    overrides = {}  # one request brings one limit for one counter
    for _ in range(chance.choice([1, 1, 2, 2, 3, 4])):
        entries = [(chance.choice(KEYS), chance.choice(VALUES)) for _ in range(chance.choice([1, 1, 1, 2, 2, 3]))]
        descriptor = {"entries": [{"key": key, "value": value} for key, value in entries]}
        if chance.random() < 0.3:
            descriptor["hitsAddend"] = str(chance.choice(HITS))
        if chance.random() < 0.1:
            unit = chance.choice(UNITS)
            requests = overrides.setdefault((unit, *entries), chance.choice(LIMITS))
            descriptor["limit"] = {"requestsPerUnit": requests, "unit": unit}
        made["descriptors"].append(descriptor)
    if chance.random() < 0.3:
        made["descriptors"].append(made["descriptors"][0])
    if chance.random() < 0.3:
        made["hitsAddend"] = chance.choice(HITS)
    return made


# ------------------------------------------------------------------------------------------------------------- the model

def step(nodes, key, value):
    """The node that takes an entry, or None."""
    same_key = [node for node in nodes if node["key"] == key]
    exact = [node for node in same_key if node.get("value") and node["value"] == value]
    wild = [node for node in same_key if "*" in node.get("value", "") and fnmatch.fnmatchcase(value, node["value"])]
    bare = [node for node in same_key if "value" not in node]
    return next(iter(exact + wild + bare), None)


class Charge:
    """What a descriptor asks of a counter."""

    def __init__(self, counter, most, cost, enforced=True, counts_refused=False):
        self.counter, self.most, self.cost = counter, most, cost
        self.enforced, self.counts_refused = enforced, counts_refused
        self.refuses, self.left = False, 0


class Model:
    def __init__(self, trees):
        self.trees = trees
        self.spent = {}

    def walk(self, domain, entries):
        """The node where a descriptor ends, if it has a rate, and its counter."""
        nodes, node, counter = self.trees[domain], None, [domain]
        for key, value in entries:
            node = step(nodes, key, value)
            if node is None:
                return None, None
            fixed = node.get("share_threshold") or node.get("value") == value
            counter.append((key, node.get("value"), node["value"] if fixed else value))
            nodes = node.get("descriptors", [])
        return (node, tuple(counter)) if "rate_limit" in node else (None, None)

    def ask(self, request):
        """The overall code, and the code and what is left of each descriptor."""
        charges = self.plan(request)
        enforced = [charge for charge in charges if isinstance(charge, Charge) and charge.enforced]
        beside = [charge for charge in charges if isinstance(charge, Charge) and not charge.enforced]
        refused = self.take_together(enforced)
        for charge in beside:
            self.take_alone(charge, refused)
        for charge in enforced + beside:
            if charge.counts_refused and (refused or charge.refuses):
                self.spend(charge)
        return "OVER_LIMIT" if refused else "OK", [self.tell(charge) for charge in charges]

    def plan(self, request):
        """A charge for each descriptor, or what remains of one that is not counted."""
        if request["domain"] not in self.trees:
            return [0 for _ in request["descriptors"]]
        charges, nodes = [], []
        for descriptor in request["descriptors"]:
            entries = [(entry["key"], entry["value"]) for entry in descriptor["entries"]]
            cost = int(descriptor.get("hitsAddend", request.get("hitsAddend", 0) or 1))
            node, counter = self.walk(request["domain"], entries)
            limit = node["rate_limit"] if node else {}
            if "limit" in descriptor:
                node, brought = None, descriptor["limit"]
                charges.append(Charge((request["domain"], brought["unit"], *entries), brought["requestsPerUnit"], cost))
            elif "requests_per_unit" in limit:
                enforced = not node.get("shadow_mode") and not node.get("quota_mode")
                charges.append(Charge(counter, limit["requests_per_unit"], cost, enforced, node.get("count_refused", False)))
            else:
                charges.append(MOST if limit.get("unlimited") else 0)
            nodes.append(node)
        replaced = {other["name"] for node in nodes if node for other in node["rate_limit"].get("replaces", [])}
        return [0 if isinstance(charge, Charge) and node and node["rate_limit"].get("name") in replaced else charge
                for charge, node in zip(charges, nodes, strict=True)]

    def left(self, charge):
        return max(charge.most - self.spent.get(charge.counter, 0), 0)

    def spend(self, charge):
        """All that is left, if it is not enough."""
        self.spent[charge.counter] = self.spent.get(charge.counter, 0) + min(charge.cost, self.left(charge))
        charge.left = self.left(charge)

    def take_together(self, charges):
        """All or nothing. One that shares its counter with others has those before it to pay for, too."""
        asked = {}
        for charge in charges:
            asked[charge.counter] = asked.get(charge.counter, 0) + charge.cost
            charge.refuses = asked[charge.counter] > self.left(charge)
            charge.left = self.left(charge)
        refused = any(charge.refuses for charge in charges)
        for charge in charges:
            if not refused:
                self.spend(charge)
        return refused

    def take_alone(self, charge, refused):
        """A refused request spends nothing, and neither does what exceeds a limit that refuses nobody."""
        charge.refuses, charge.left = charge.cost > self.left(charge), self.left(charge)
        if not refused and not charge.refuses:
            self.spend(charge)

    def tell(self, charge):
        if not isinstance(charge, Charge):
            return "OK", charge
        return "OVER_LIMIT" if charge.refuses and charge.enforced else "OK", 0 if charge.refuses else min(charge.left, MOST)


# -------------------------------------------------------------------------------------------------------------- the proof

def ask(connection, request):
    answer = connection.request("POST", "/json", [("Content-Type", "application/json")], json.dumps(request))
    assert answer.status in (200, 429), (request, answer)
    told = answer.json()
    assert answer.status == (200 if told["overallCode"] == "OK" else 429), told
    return told["overallCode"], [(status["code"], status.get("limitRemaining", 0)) for status in told["statuses"]]


def test_the_same_answers_as_a_model(serve, tmp_path):
    seed = random.SystemRandom().randrange(2**32)
    print("seed", seed)  # shown when it fails
    chance = random.Random(seed)
    trees = {f"domain{number}": random_tree(chance) for number in range(DOMAINS)}
    for domain, tree in trees.items():
        (tmp_path / f"{domain}.yaml").write_text(yaml.safe_dump({"domain": domain, "descriptors": tree}, sort_keys=False))
    server = serve(f"envoy: [{', '.join(str(tmp_path / name) + '.yaml' for name in trees)}]\n", "--store", "memory:?keys=100000")
    model = Model(trees)
    with Connection(server.http) as connection:
        for domain, tree in trees.items():
            for _ in range(REQUESTS):
                request = random_request(chance, domain)
                expected = model.ask(request)
                assert ask(connection, request) == expected, f"seed {seed}: {request} of {yaml.safe_dump(tree, sort_keys=False)}"

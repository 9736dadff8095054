"""docs/openapi.yaml is true: its examples are asked, and what is answered is as it says and of the form that it says."""

import json
import re

import jsonschema
import pytest
import yaml

import program
from client import get, request

FILE = program.ROOT / "docs" / "openapi.yaml"
API = yaml.safe_load(FILE.read_text())
POLICY = re.search(r"```yaml\n(.*?)```", API["info"]["description"], re.DOTALL).group(1)
METHODS = ("get", "post", "delete")
DIALECT = "https://json-schema.org/draft/2020-12/schema"


def validate(value, schema):
    """References lead into the whole document."""
    jsonschema.Draft202012Validator({"$schema": DIALECT, "components": API["components"], **schema}).validate(value)


def operations():
    for path, item in API["paths"].items():
        for method in METHODS:
            if method in item:
                yield method, path, item, item[method]


def concrete(path, item):
    for parameter in item.get("parameters", []):
        path = path.replace("{%s}" % parameter["name"], parameter["example"])
    return path


def asked(operation):
    """{name: body} of the questions of an operation; one without a body is asked by the names of its answers."""
    if "requestBody" in operation:
        examples = operation["requestBody"]["content"]["application/json"]["examples"]
        return {name: example["value"] for name, example in examples.items()}
    return {name: None for name in answers(operation)}


def answers(operation):
    """{name: (status, media type, schema, value)} of the examples of its answers."""
    found = {}
    for status, response in operation["responses"].items():
        for media, content in response.get("content", {}).items():
            for name, example in content.get("examples", {}).items():
                found[name] = (int(status), media, content["schema"], example["value"])
    return found


def assert_tells(value, example, at="answer"):
    """Everything that the example says is so. Waits shrink while we ask."""
    if isinstance(example, dict):
        for name in example:
            assert name in value, f"{at} lacks {name}: {value}"
            assert_tells(value[name], example[name], f"{at}.{name}")
    elif isinstance(example, list):
        assert len(value) == len(example), f"{at}: {value}"
        for number, one in enumerate(example):
            assert_tells(value[number], one, f"{at}[{number}]")
    elif at.endswith("_after_ns") and example:
        assert example - 60 * 10**9 < value <= example, f"{at}: {value}"
    elif at.endswith("retry_after") and example:
        assert example - 60 < value <= example, f"{at}: {value}"
    else:
        assert value == example, f"{at}: {value!r}"


def test_every_question_has_its_answer():
    count = 0
    for method, path, _, operation in operations():
        assert set(asked(operation)) == set(answers(operation)), f"{method} {path}"
        count += len(asked(operation))
    assert count >= 20


def test_questions_are_of_their_form():
    wrong = {"unknown-member"}
    for _, _, _, operation in operations():
        for name, body in asked(operation).items():
            if body is None:
                continue
            schema = operation["requestBody"]["content"]["application/json"]["schema"]
            if name in wrong:
                with pytest.raises(jsonschema.ValidationError):
                    validate(body, schema)
            else:
                validate(body, schema)


def test_all_examples_in_their_order(serve):
    server = serve(POLICY)
    for method, path, item, operation in operations():
        address = server.admin if "administrators" in operation["tags"] else server.http
        for name, body in asked(operation).items():
            status, media, schema, example = answers(operation)[name]
            fields = [("Content-Length", "0")] if method == "post" and body is None else []
            answer = request(address, method.upper(), concrete(path, item), fields, json.dumps(body) if body else b"")
            assert (answer.status, answer.get("content-type")) == (status, media), (name, answer)
            validate(answer.json(), schema)
            assert_tells(answer.json(), example, name)


def test_what_has_no_example_is_there_as_well(serve):
    server = serve(POLICY)
    for method, path, item, operation in operations():
        if not asked(operation):
            address = server.admin if "administrators" in operation["tags"] else server.http
            assert request(address, method.upper(), concrete(path, item)).status == 200, path


def test_refusals_of_check_are_of_their_form(serve):
    server = serve(POLICY)
    responses = API["paths"]["/check"]["get"]["responses"]
    for _ in range(3):
        answer = get(server.http, "/check")
        assert answer.status == 200 and set(responses["200"]["headers"]) <= {"RateLimit-Policy", "RateLimit"}
    answer = get(server.http, "/check")
    assert answer.status == 429
    validate(answer.json(), responses["429"]["content"]["application/problem+json"]["schema"])
    for name in responses["429"]["headers"]:
        assert answer.get(name), name


def test_the_version_is_the_programs():
    assert API["info"]["version"] in program.run("--version")[1]

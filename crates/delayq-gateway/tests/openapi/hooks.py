"""What schemathesis cannot read in openapi.json: values of delayq's formats, NDJSON, and two checks of the gateway's own promises."""

import datetime
import json
import re

import jsonschema_rs
import schemathesis
from hypothesis import strategies as st

# Long enough for a deadline on a busy machine, and at most the 60s that a deadline may have.
DURATIONS = st.one_of(
    st.integers(20, 60).map("{}s".format),
    st.integers(20_000, 60_000).map("{}ms".format),
    st.sampled_from(["1m", "59s 500ms", "0m 30s"]),
)
MOMENTS = st.one_of(
    st.integers(978_307_200_000, 253_402_300_799_999).map(str),
    st.datetimes(min_value=datetime.datetime(2001, 1, 1)).map(lambda at: at.isoformat() + "+01:00"),
)
PRINTABLE = st.characters(exclude_categories=["Cc", "Cs"], max_codepoint=0x2FFF)
# A character takes up to three bytes. Names in headers and paths cannot begin or end with spaces.
NAMES = st.text(PRINTABLE, min_size=1, max_size=40).map(str.strip).filter(bool)

for name, values in {
    "delayq-duration": DURATIONS,
    "delayq-shift": st.tuples(st.sampled_from(["", "-"]), DURATIONS).map("".join),
    "delayq-moment": MOMENTS,
    "delayq-due": MOMENTS | DURATIONS.map("+{}".format) | st.just("now"),
    "delayq-count": st.integers(0, 60_000).map(str),
    "delayq-backoff": st.sampled_from(["5s", "1s..10m", "1s,5s,1m"]),
    "delayq-topic": st.text("abcXYZ019._-/", min_size=1, max_size=128).filter(lambda name: name.strip("./")),
    "delayq-name": NAMES,
    "delayq-id": NAMES.filter(lambda name: not name.startswith("~")),
    "delayq-word": st.text("abcXYZ019_-", min_size=1, max_size=32),
    "delayq-reason": NAMES,
    "delayq-bare-tag": st.tuples(st.integers(0, 4_294_967_295), st.integers(1, 2**45)).map("{0[0]}-{0[1]}".format),
    "delayq-tag": st.tuples(st.integers(0, 4_294_967_295), st.integers(1, 2**45)).map('"{0[0]}-{0[1]}"'.format),
}.items():
    schemathesis.openapi.format(name, values)


@schemathesis.serializer("application/x-ndjson")
def one_line(ctx, value):
    return json.dumps(value).encode() + b"\n"


@schemathesis.deserializer("application/x-ndjson")
def last_line(ctx, response):
    """The check `every_line_is_described` looks at the others."""
    return json.loads(response.content.splitlines()[-1])


def whole(value):
    """To JSON Schema, 3.0 is an integer. To delayq, as to most programs, an integer has no point."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [whole(item) for item in value]
    if isinstance(value, dict):
        return {key: whole(item) for key, item in value.items()}
    return value


@schemathesis.hook
def before_call(context, case, kwargs):
    """A reserve that may wait does not: nobody puts a message meanwhile. The only Redis confirms neither disk nor replicas."""
    case.body = whole(case.body)
    if isinstance(case.body, dict) and re.fullmatch("disk|replica:[1-9]", str(case.body.get("durability"))):
        case.body = {**case.body, "durability": "memory"}
    if case.path == "/v1/reserve" and isinstance(case.body, dict):
        if re.fullmatch(r"[0-9]+(ms|s|m)( [0-9]+(ms|s))?", str(case.body.get("wait"))):
            case.body = {**case.body, "wait": "1ms"}


@schemathesis.check
def a_refusal_says_why_by_name(ctx, response, case):
    """Problem details with the status, the request's id, a code that the document lists for that status, and a sentence."""
    if response.status_code < 400:
        return
    kind = response.headers["content-type"][0]
    assert kind == "application/problem+json", kind
    problem = response.json()
    assert problem["status"] == response.status_code, problem
    assert problem["instance"] == response.headers["x-request-id"][0], problem
    assert problem["type"] == f"urn:delayq:problem:{problem['code']}" and problem["detail"], problem
    documented = case.operation.definition.raw["responses"].get(str(response.status_code))
    assert documented is None or problem["code"] in documented["description"], (problem, documented["description"])


@schemathesis.check
def every_line_is_described(ctx, response, case):
    if response.headers.get("content-type", [""])[0] != "application/x-ndjson":
        return
    schema = case.operation.definition.raw["responses"]["200"]["content"]["application/x-ndjson"]["schema"]
    whole = {**schema, "components": case.operation.schema.raw_schema["components"]}
    lines = jsonschema_rs.validator_for(whole)
    for line in response.content.splitlines():
        lines.validate(json.loads(line))

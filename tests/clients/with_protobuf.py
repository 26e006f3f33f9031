"""What Google's own protobuf says of the same records, in two forms.

usage: with_protobuf.py        three lines of JSON: in, out, in; then a verdict

In: a descriptor set and the names of messages. Out: cases, each a message in Protobuf and its JSON, printed in
each way, ours first. In: what Nearside made of each: its JSON, and Protobuf of each JSON. Out: what differs, a text each.
"""

import base64
import json
import random
import struct
import sys

from google.protobuf import any_pb2, descriptor_pb2, descriptor_pool, json_format, message_factory
from google.protobuf.descriptor import FieldDescriptor as Field

PRINTINGS = [(names, defaults) for names in ("camel", "proto") for defaults in (False, True)]
INTEGERS = {
    Field.CPPTYPE_INT32: (-(2**31), 2**31 - 1),
    Field.CPPTYPE_INT64: (-(2**63), 2**63 - 1),
    Field.CPPTYPE_UINT32: (0, 2**32 - 1),
    Field.CPPTYPE_UINT64: (0, 2**64 - 1),
}
LETTERS = "aZ09_ \"\\/\n\t\u0000\u001f\u007f\u00e9\u20ac\u2028\ufffd\U0001f600<>&'"
UNKNOWN = b"\xfa\xff\x1f\x03new" + b"\xf0\xff\x1f\x05"


class Maker:
    """Random messages, of a message's own descriptor."""

    def __init__(self, pool, seed):
        self.pool, self.random = pool, random.Random(seed)

    def new(self, name):
        return message_factory.GetMessageClass(self.pool.FindMessageTypeByName(name))()

    def message(self, message, depth):
        name = message.DESCRIPTOR.full_name
        own = getattr(self, name.rsplit(".", 1)[-1].lower() + "_type", None)
        if name.startswith("google.protobuf.") and own:
            own(message, depth)
            return message
        fields = list(message.DESCRIPTOR.fields) + list(self.pool.FindAllExtensions(message.DESCRIPTOR))
        share = 0.8 if depth == 1 and self.random.random() < 0.1 else self.random.choice([0.04, 0.08, 0.15])
        for field in fields:
            # Its own parser refuses what its printer makes of a list of nulls.
            if field.name != "nulls" and (field.is_required or self.random.random() < share):
                self.field(message, field, depth)
        return message

    def field(self, message, field, depth):
        is_message = field.cpp_type == Field.CPPTYPE_MESSAGE
        if is_message and depth == 0:
            return
        target = message.Extensions if field.is_extension else message
        get = (lambda: target[field]) if field.is_extension else (lambda: getattr(message, field.name))
        if is_message and field.message_type.GetOptions().map_entry:
            key, value = field.message_type.fields_by_name["key"], field.message_type.fields_by_name["value"]
            for _ in range(self.random.randint(1, 3)):
                if value.cpp_type == Field.CPPTYPE_MESSAGE:
                    self.message(get()[self.scalar(key)], depth - 1)
                else:
                    get()[self.scalar(key)] = self.scalar(value)
        elif field.is_repeated:
            for _ in range(self.random.randint(1, 4)):
                self.message(get().add(), depth - 1) if is_message else get().append(self.scalar(field))
        elif is_message:
            get().SetInParent()
            self.message(get(), depth - 1)
        elif field.is_extension:
            target[field] = self.scalar(field)
        else:
            setattr(message, field.name, self.scalar(field))

    def scalar(self, field):
        draw, kind = self.random, field.cpp_type
        if kind in INTEGERS:
            low, high = INTEGERS[kind]
            return draw.choice([0, 1, low, high, draw.randint(low, high), min(high, 2**53 + 1)])
        if kind == Field.CPPTYPE_BOOL:
            return draw.random() < 0.5
        if kind == Field.CPPTYPE_DOUBLE:
            bits = struct.unpack("<d", draw.randbytes(8))[0]
            return draw.choice([0.0, -0.0, 1.0, 0.1, 1e300, 5e-324, 2.0**53 + 2, float("inf"), -float("inf"),
                                float("nan"), bits if bits == bits else 2.5])  # JSON has one NaN
        if kind == Field.CPPTYPE_FLOAT:
            bits = struct.unpack("<f", draw.randbytes(4))[0]
            return draw.choice([0.0, -0.0, 1.0, 0.1, 3.4028234663852886e38, 1e-45, 16777216.0, float("inf"),
                                float("nan"), bits if bits == bits else 2.5])
        if kind == Field.CPPTYPE_ENUM:
            named = [value.number for value in field.enum_type.values]
            is_null = field.enum_type.full_name == "google.protobuf.NullValue"
            return draw.choice(named if field.enum_type.is_closed or is_null else named + [77, -2**31])
        if field.type == Field.TYPE_BYTES:
            return draw.randbytes(draw.randint(0, 9))
        return "".join(draw.choice(LETTERS) for _ in range(draw.randint(0, 9)))

    def timestamp_type(self, message, _):
        message.seconds = self.random.choice([0, -1, -62135596800, 253402300799, self.random.randint(-(10**10), 10**11)])
        message.nanos = self.random.choice([0, 1, 1000, 120_000_000, 999_999_999])

    def duration_type(self, message, _):
        sign = self.random.choice([1, -1])
        message.seconds = sign * self.random.choice([0, 1, 315576000000, self.random.randint(0, 10**9)])
        message.nanos = sign * self.random.choice([0, 1, 1000, 500_000_000, 999_999_999])

    def fieldmask_type(self, message, _):
        message.paths.extend(self.random.sample(["a", "foo_bar", "a.b_c.d", "x1_y"], self.random.randint(0, 3)))

    def struct_type(self, message, depth):
        message.SetInParent()
        for _ in range(self.random.randint(0, 3)):
            self.value_type(message.fields[self.scalar_text()], depth - 1)

    def listvalue_type(self, message, depth):
        for _ in range(self.random.randint(0, 3)):
            self.value_type(message.values.add(), depth - 1)

    def value_type(self, message, depth):
        kind = self.random.randint(1, 6 if depth > 0 else 4)
        if kind == 1:
            message.null_value = 0
        elif kind == 2:
            message.number_value = self.random.choice([0.0, 1.0, -1.5, 2.0**53 + 2, 1e300, -0.0, 0.1])
        elif kind == 3:
            message.string_value = self.scalar_text()
        elif kind == 4:
            message.bool_value = self.random.random() < 0.5
        elif kind == 5:
            message.struct_value.SetInParent()
            self.struct_type(message.struct_value, depth - 1)
        else:
            message.list_value.SetInParent()
            self.listvalue_type(message.list_value, depth - 1)

    def any_type(self, message, depth):
        names = ["nearside.test.Kinds", "nearside.test.Legacy"] + ["google.protobuf." + it for it in (
            "Timestamp", "Duration", "FieldMask", "Struct", "Value", "ListValue", "Any", "Empty", "Int64Value", "FloatValue",
            "StringValue")]
        if depth > 0 and self.random.random() < 0.9:
            inner = self.message(self.new(self.random.choice(names)), depth - 1)
            message.type_url = "type.googleapis.com/" + inner.DESCRIPTOR.full_name
            message.value = inner.SerializeToString(deterministic=True)

    def scalar_text(self):
        return "".join(self.random.choice(LETTERS) for _ in range(self.random.randint(0, 6)))


def parsed(maker, name, data):
    message = maker.new(name)
    message.ParseFromString(data)
    return message


def printed(maker, message, names, defaults):
    return json_format.MessageToJson(
        message, preserving_proto_field_name=names == "proto", always_print_fields_with_no_presence=defaults, indent=None,
        descriptor_pool=maker.pool)


def same(one, other):
    """By value: 1 is 1.0 and not true."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, (int, float)) and isinstance(other, (int, float)) and not isinstance(one, bool):
        # Of a float of 32 bits it does not always print the shortest text; the messages are compared exactly.
        alike = one == other or abs(one) < 3.5e38 and struct.pack("<f", one) == struct.pack("<f", other)
        return not isinstance(other, bool) and alike and (one != 0 or str(float(one)) == str(float(other)))
    return type(one) is type(other) and one == other


def canonical(maker, message):
    """Bytes that are the same for equal messages, what is in an Any included."""
    def walk(message):
        if message.DESCRIPTOR.full_name == "google.protobuf.Any" and message.type_url:
            inner = parsed(maker, message.type_url.rsplit("/", 1)[-1], message.value)
            walk(inner)
            message.value = inner.SerializeToString(deterministic=True)
            return
        for field, value in message.ListFields():
            if field.cpp_type != Field.CPPTYPE_MESSAGE:
                continue
            if field.message_type.GetOptions().map_entry:
                if field.message_type.fields_by_name["value"].cpp_type == Field.CPPTYPE_MESSAGE:
                    for key in value:
                        walk(value[key])
            elif field.is_repeated:
                for element in value:
                    walk(element)
            else:
                walk(value)
    message.DiscardUnknownFields()
    walk(message)
    return message.SerializeToString(deterministic=True)


def main():
    asked = json.loads(sys.stdin.readline())
    pool = descriptor_pool.DescriptorPool()
    files = descriptor_pb2.FileDescriptorSet.FromString(base64.b64decode(asked["descriptor_set"]))
    for file in files.file:
        pool.Add(file)
    maker, cases = Maker(pool, asked["seed"]), []
    while len(cases) < asked["cases"]:
        name = asked["messages"][len(cases) % len(asked["messages"])]
        message = maker.new(name)
        if len(cases) >= len(asked["messages"]):
            maker.message(message, depth=maker.random.randint(1, 8))
        data = message.SerializeToString(deterministic=True)
        texts = [printed(maker, message, *printing) for printing in PRINTINGS]
        unknown = UNKNOWN if len(cases) % 3 == 0 else b""
        cases.append((name, data, texts, unknown))
    out = [{"message": name, "protobuf": base64.b64encode(data + unknown).decode(), "json": texts,
            "unknown": 2 if unknown else 0} for name, data, texts, unknown in cases]
    print(json.dumps(out), flush=True)
    wrong = []
    for number, (case, ours) in enumerate(zip(cases, json.loads(sys.stdin.readline()), strict=True)):
        name, data, texts, _ = case
        want = canonical(maker, parsed(maker, name, data))
        at, made = f"case {number} ({name}): ", ours["json"]
        if not same(json.loads(made), json.loads(texts[0])):
            wrong.append(at + f"JSON differs: {made[:600]} instead of {texts[0][:600]}")
        try:
            again = json_format.Parse(made, maker.new(name), descriptor_pool=pool)
            if canonical(maker, again) != want:
                wrong.append(at + f"our JSON means something else: {made[:600]}")
        except json_format.ParseError as error:
            wrong.append(at + f"our JSON cannot be parsed: {error}")
        for printing, text, back in zip(PRINTINGS, texts, ours["protobuf"], strict=True):
            at = f"case {number} ({name}, {printing}): "
            if canonical(maker, parsed(maker, name, base64.b64decode(back))) != want:
                wrong.append(at + f"our Protobuf of their JSON means something else: {text[:600]}")
    print(json.dumps(wrong), flush=True)


main()

// The payload tests' Node client: an application that reads records as Protobuf with fetch and @bufbuild/protobuf.
//
// usage: records.mjs BASE DESCRIPTOR_SET MESSAGE DIRECTORY        DIRECTORY has the library in its node_modules
//
// One request a line of standard input (`{"path", "headers"}`), one answer a line of standard output: status, header
// lines, and what the body says, as the library reads it.

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { createInterface } from "node:readline";

const [, , base, descriptors, name, directory] = process.argv;
const load = createRequire(join(directory, "package.json"));
const { createFileRegistry, fromBinary, toJson } = load("@bufbuild/protobuf");
const { AnySchema, FileDescriptorSetSchema } = load("@bufbuild/protobuf/wkt");
const { BinaryReader } = load("@bufbuild/protobuf/wire");

const PROTOBUF = "application/x-protobuf";
const registry = createFileRegistry(fromBinary(FileDescriptorSetSchema, readFileSync(descriptors)));
const schema = registry.getMessage(name);

// The fields of google.rpc.Status and ErrorInfo, by their numbers.
const status = { 1: ["code", (reader) => reader.int32()], 2: ["message", (reader) => reader.string()] };
status[3] = ["detail", (reader) => fromBinary(AnySchema, reader.bytes())];
const errorInfo = { 1: ["reason", (reader) => reader.string()], 2: ["domain", (reader) => reader.string()] };

function read(fields, bytes) {
  const [reader, message] = [new BinaryReader(bytes), {}];
  while (reader.pos < reader.len) {
    const [number, wireType] = reader.tag();
    if (fields[number]) message[fields[number][0]] = fields[number][1](reader);
    else reader.skip(wireType);
  }
  return message;
}

async function said(answer) {
  if (answer.headers.get("content-type") !== PROTOBUF) return { text: await answer.text() };
  const bytes = new Uint8Array(await answer.arrayBuffer());
  if (answer.ok) return { record: toJson(schema, fromBinary(schema, bytes), { registry }) };
  const { detail, ...rest } = read(status, bytes);
  if (detail.typeUrl !== "type.googleapis.com/google.rpc.ErrorInfo") throw new Error(detail.typeUrl);
  return { ...rest, ...read(errorInfo, detail.value) };
}

for await (const line of createInterface({ input: process.stdin })) {
  const { path, headers } = JSON.parse(line);
  const answer = await fetch(base + path, { headers: { accept: PROTOBUF, ...headers } });
  const seen = { status: answer.status, headers: Object.fromEntries(answer.headers), ...(await said(answer)) };
  process.stdout.write(`${JSON.stringify(seen)}\n`);
}

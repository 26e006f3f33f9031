// The drop-in tests' Node client: what an application does with fetch, with http.request, which knows Unix sockets too,
// or with HTTP/2 without TLS; none of them knows anything of Nearside.
//
// usage: with_node.mjs fetch|request|h2c BASE        BASE is http://HOST:PORT or, with request, unix:PATH
//
// Reads steps as JSON from standard input, sends them one after another, and prints what came and how many connections
// that took.

import { createHash } from "node:crypto";
import { subscribe } from "node:diagnostics_channel";
import { Agent, request } from "node:http";
import { connect } from "node:http2";
import { text } from "node:stream/consumers";
import { gunzipSync } from "node:zlib";

const [, , how, base] = process.argv;
const steps = JSON.parse(await text(process.stdin));
let connections = 0;

async function withFetch({ method, path, headers, body }) {
  const answer = await fetch(base + path, { method, headers, body: body ?? undefined, redirect: "manual" });
  return { status: answer.status, headers: [...answer.headers], body: Buffer.from(await answer.arrayBuffer()) };
}

const encoding = (headers) =>
  Object.keys(headers).some((name) => name.toLowerCase() === "accept-encoding") ? {} : { "accept-encoding": "gzip" };

async function complete(stream, status, fields) {
  const chunks = [];
  for await (const chunk of stream) chunks.push(chunk);
  const whole = Buffer.concat(chunks);
  const coded = fields["content-encoding"] === "gzip" && whole.length > 0;
  const headers = Object.entries(fields).map(([name, value]) => [name, String(value)]);
  return { status, headers, body: coded ? gunzipSync(whole) : whole };
}

const agent = new Agent({ keepAlive: true, maxSockets: 1 });
const sockets = new Set();

function withRequest({ method, path, headers, body }) {
  return new Promise((resolve, reject) => {
    const { hostname, port } = base.startsWith("unix:") ? {} : new URL(base);
    const where = hostname ? { hostname, port } : { socketPath: base.slice("unix:".length) };
    const asked = { ...where, agent, method, path, headers: { ...encoding(headers), ...headers } };
    const sent = request(asked, (answer) => complete(answer, answer.statusCode, answer.headers).then(resolve, reject));
    sent.on("socket", (socket) => sockets.add(socket));
    sent.on("error", reject);
    sent.end(body ?? undefined);
  });
}

let session;

function withHttp2({ method, path, headers, body }) {
  if (!session || session.closed) {
    session = connect(base);
    connections += 1;
  }
  return new Promise((resolve, reject) => {
    const stream = session.request({ ":method": method, ":path": path, ...encoding(headers), ...headers });
    stream.on("response", ({ ":status": status, ...fields }) => complete(stream, status, fields).then(resolve, reject));
    stream.on("error", reject);
    stream.end(body ?? undefined);
  });
}

subscribe("undici:client:connected", () => (connections += 1));
const send = { fetch: withFetch, request: withRequest, h2c: withHttp2 }[how];
const answers = [];
for (const step of steps) {
  const { status, headers, body } = await send(step);
  headers.sort(([one], [other]) => (one < other ? -1 : 1));
  const sha256 = createHash("sha256").update(body).digest("hex");
  answers.push({ status, headers, length: body.length, sha256 });
}
agent.destroy();
session?.close();
process.stdout.write(JSON.stringify({ connections: connections + sockets.size, answers }));

// A publisher of announcements as docs/publishing.md describes it; as a program it takes orders from standard input.

import { randomUUID } from "node:crypto";
import { realpathSync } from "node:fs";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { pathToFileURL } from "node:url";
import { PublishCommand, SNSClient } from "@aws-sdk/client-sns";

// Numbers what it is handed and sends it in order. Each call returns a promise: the number, once sent.
// `through()` is the Date through which every change at the source was handed over; undefined: not known yet.
export class Publisher {
  #topic; #through; #name; #sns;
  #last = 0; #waiting = 0; #sending = Promise.resolve(); #signedOff = false;

  constructor(topic, through, name = randomUUID()) { // the name is new with each process
    [this.#topic, this.#through, this.#name] = [topic, through, name];
    this.#sns = new SNSClient({ region: topic.split(":")[3], maxAttempts: 1 }); // #send tries again
    this.#beat();
  }

  changed(recordType, key, version) { return this.#announce("CHANGED", recordType, key, BigInt(version)); }
  deleted(recordType, key, version) { return this.#announce("DELETED", recordType, key, BigInt(version)); }
  reload(recordType) { return this.#announce("RELOAD", recordType); }

  async close() { // signs off once all is sent; rejects if that takes longer than 30 s
    const late = sleep(30_000, undefined, { ref: false }).then(() => { throw new Error("not all sent in 30 s"); });
    await Promise.race([this.#say({ kind: "HEARTBEAT", ingestedThrough: this.#through(), signingOff: true }), late]);
  }

  async #beat() {
    while (!this.#signedOff) { // it takes its place like the others: it must not overtake what it vouches for
      await this.#say({ kind: "HEARTBEAT", ingestedThrough: this.#through() });
      await sleep(5_000, undefined, { ref: false });
    }
  }

  #announce(kind, recordType, key, version) {
    // 64-bit numbers are strings
    return this.#say({ kind, recordType, key, version: version?.toString(), ingestedAt: new Date() });
  }

  async #say(said) {
    const counts = said.kind !== "HEARTBEAT";
    if (this.#signedOff || (counts && this.#waiting >= 1000)) {
      throw new Error("not taken: 1,000 announcements wait, or the publisher has signed off");
    }
    const number = this.#last + (counts ? 1 : 0); // a heartbeat repeats the last one
    const text = JSON.stringify({ ...said, publisher: this.#name, sequence: number.toString() });
    [this.#last, this.#signedOff, this.#waiting] = [number, said.signingOff === true, this.#waiting + 1];
    return (this.#sending = this.#sending.then(() => this.#send(number, text)));
  }

  async #send(number, text) {
    for (;;) {
      try {
        const message = new PublishCommand({ TopicArn: this.#topic, Message: text });
        await this.#sns.send(message, { abortSignal: AbortSignal.timeout(5_000) });
        this.#waiting -= 1;
        return number;
      } catch (error) { // whatever it was, what comes later must not overtake this
        console.error(`number ${number} goes again in a second: ${error}`);
        await sleep(1_000);
      }
    }
  }
}

if (process.argv[1] && import.meta.url === pathToFileURL(realpathSync(process.argv[1])).href) {
  const [topic, name] = process.argv.slice(2);
  const publisher = new Publisher(topic, () => new Date(), name); // here a change is made when its line is read
  for await (const line of createInterface({ input: process.stdin })) {
    const [order, ...rest] = line.trim().split(/\s+/);
    const isOrder = /^((changed|deleted) \S+ \S+ \d+|reload \S+|wait [\d.]+)$/.test([order, ...rest].join(" "));
    if (!isOrder) console.error("orders: changed|deleted TYPE KEY VERSION, reload TYPE, wait SECONDS");
    else if (order === "wait") await sleep(Number(rest[0]) * 1000);
    else console.log(`announced ${await publisher[order](...rest)}`);
  }
  await publisher.close();
}

// What both clients of Node share. See README.md for what is printed and asked.

import assert from "node:assert/strict";
import { createInterface } from "node:readline";

export const [host, port, protocol, target] = process.argv.slice(2);
/** The protocol that a connection has to have come to. */
export const resp = protocol === "default" ? 3 : Number(protocol);
/** Milliseconds for what comes by itself: a message, a server that is starting. */
const PATIENCE = 20_000;

/** Bytes that text handling breaks: none, line ends, zero, every byte, no UTF-8, longer than any buffer. */
export const BINARY = [
  Buffer.alloc(0),
  Buffer.from("\r\n"),
  Buffer.from([0]),
  Buffer.from(Array.from({ length: 256 }, (_, byte) => byte)),
  Buffer.from("ff fe 0d 0a 24 2d 31 0d 0a".replaceAll(" ", ""), "hex"),
  Buffer.alloc(1_000_000, Buffer.from([0xc3, 0x28])),
];

/** Deep, and exact in its types; an object without a prototype counts as its entries. */
export function equal(found, expected) {
  assert.deepEqual(plain(found), plain(expected));
}

function plain(value) {
  if (Buffer.isBuffer(value)) return `bytes ${value.toString("hex")}`;
  if (Array.isArray(value)) return value.map(plain);
  if (value instanceof Map) return plain(Object.fromEntries(value));
  if (value !== null && typeof value === "object") {
    return Object.fromEntries(Object.entries(value).map(([name, entry]) => [name, plain(entry)]));
  }
  return value;
}

/** The error of a call, whose message has to contain `text`. */
export async function fails(promise, text) {
  let found;
  try {
    found = await promise;
  } catch (error) {
    assert.ok(`${error.constructor.name}: ${error.message}`.includes(text), `${error} does not say ${text}`);
    return error;
  }
  assert.fail(`an error with "${text}" expected, found ${JSON.stringify(found)}`);
}

export function contains(text, part) {
  assert.ok(String(text).includes(part), `${JSON.stringify(String(text))} does not contain ${part}`);
}

/** Waits until `done` gives something true. */
export async function until(what, done) {
  const end = Date.now() + PATIENCE;
  for (;;) {
    const found = await done();
    if (found) return found;
    assert.ok(Date.now() < end, `in time: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

/** What comes by itself, in its order: `push` puts in, `take` waits for the next. */
export class Arrivals {
  #items = [];

  push = (...item) => void this.#items.push(item);

  async take() {
    return until("an arrival", () => this.#items.shift());
  }

  get left() {
    return this.#items.length;
  }
}

const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();

/** Has the server killed and started again. */
export async function restart() {
  console.log("restart");
  equal((await lines.next()).value, "restarted");
}

/** Carries out the steps that were asked for, and ends the process: a client that was left open is no hang. */
export async function run(steps) {
  for (const name of process.argv.slice(6)) {
    // A reply that never comes has no stack: the step at least has a name.
    const watchdog = setTimeout(() => {
      console.error(`${name} did not end`);
      process.exit(1);
    }, 2 * PATIENCE);
    await steps[name]();
    clearTimeout(watchdog);
    console.log(`ok ${name}`);
  }
  process.exit(0);
}

// Runs something once with ioredis: run_once.mjs HOST PORT KEY FINGERPRINT RESULT.
// Prints `executed`, `replayed`, `pending` or `conflict`, and the result when there is one.

import { randomBytes } from "node:crypto";
import { createRequire } from "node:module";

// In an application: import Redis from "ioredis"
const Redis = createRequire(import.meta.url)("ioredis");

export function connect(host, port) {
  return new Redis(port, host, {
    // ioredis sends a command again when its answer was lost. Here that would turn an `acquired` that nobody saw into a
    // `pending`: the error is better, it says what happened.
    autoResendUnfulfilledCommands: false,
    maxRetriesPerRequest: 0,
  });
}

/** `[outcome, result]`. An exception of `work` leaves the record pending until its deadline. */
export async function runOnce(server, key, fingerprint, work, ttlMs = 86_400_000) {
  const owner = randomBytes(16).toString("hex"); // names this attempt; never used again
  // callBuffer: results are bytes, and text handling would change them.
  const [state, stored] = await server.callBuffer("IDEM", key, "BEGIN", fingerprint, owner, ttlMs);
  if (state.toString() === "completed") return ["replayed", stored];
  if (state.toString() !== "acquired") return [state.toString(), undefined]; // nothing is done
  const result = await work();
  // An exception here means that the result may be stored. No ABORT: a later BEGIN tells.
  if ((await server.call("IDEM", key, "COMPLETE", fingerprint, owner, result)) === 0) {
    console.error("not stored: the record had ended");
  }
  return ["executed", result];
}

const [host, port, key, fingerprint, result] = process.argv.slice(2);
const server = connect(host, Number(port));
const [outcome, value] = await runOnce(server, key, fingerprint, async () => Buffer.from(result));
console.log(value === undefined ? outcome : `${outcome} ${value}`);
server.disconnect();

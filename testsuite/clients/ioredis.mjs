// ioredis in its default configuration, and with RESP2: ioredis.mjs HOST PORT PROTOCOL TARGET STEP…
// PROTOCOL is `default` or `2`, TARGET `idemd` or `redis`.

import { createRequire } from "node:module";
import { Arrivals, BINARY, contains, equal, fails, host, port, protocol, resp, restart, run, target, until } from "./common.mjs";

// The packages lie in a directory of the build, named by NODE_PATH, which `import` does not look at.
const Redis = createRequire(import.meta.url)("ioredis");
const { version } = createRequire(import.meta.url)("ioredis/package.json");

const opened = [];

function connect(more = {}) {
  const options = protocol === "default" ? more : { ...more, protocol: Number(protocol) };
  const client = new Redis(Number(port), host, options);
  // Lost connections are part of the test; without a listener each prints a warning.
  client.on("error", () => {});
  opened.push(client);
  return client;
}

function close() {
  for (const client of opened.splice(0)) client.disconnect();
}

function field(line, name) {
  return ` ${line}`.match(new RegExp(` ${name}=(\\S*)`))?.[1];
}

async function checkConnect() {
  const client = connect({ connectionName: "first" });
  equal(await client.ping(), "PONG");
  equal(client.status, "ready");
  const me = await client.client("INFO");
  equal([field(me, "name"), field(me, "resp")], ["first", String(resp)]);
  contains(await client.client("LIST"), "name=first");
  if (target === "idemd") {
    equal([field(me, "lib-name"), field(me, "lib-ver")], ["ioredis", version]);
  }
  contains(await client.info("persistence"), "loading:0");
  equal(await client.echoBuffer("\r\n"), Buffer.from("\r\n"));
  equal((await client.role())[0], "master");
  // By default maps come as flat arrays in either protocol.
  equal(await client.config("GET", "nosuchoption"), []);
  await fails(client.call("NOSUCHCOMMAND"), "unknown command");
  await fails(client.cluster("INFO"), "cluster support disabled");
  const other = connect({ db: 5 });
  await other.set("in five", "é");
  equal([await other.get("in five"), await client.get("in five")], ["é", null]);
  await other.flushdb();
  equal(await other.quit(), "OK");
  equal(field(await client.client("INFO"), "id"), field(me, "id"));
}

async function checkPipeline() {
  const client = connect();
  const pipe = client.pipeline();
  for (let index = 0; index < 5_000; index++) pipe.set(`p:${index}`, index).get(`p:${index}`);
  const found = await pipe.exec();
  equal(found.filter((_, at) => at % 2 === 1), Array.from({ length: 5_000 }, (_, index) => [null, String(index)]));
  // Commands that nobody collected go out in one write as well, and each promise gets its own reply.
  const many = await Promise.all(Array.from({ length: 1_000 }, (_, index) => client.get(`p:${index}`)));
  equal(many, Array.from({ length: 1_000 }, (_, index) => String(index)));
  const mixed = await client.pipeline().set("text", "a").incr("text").hset("hash", "f", "1", "g", "\r\n").hgetall("hash").get("none").exec();
  contains(mixed[1][0], "not an integer");
  equal([mixed[0], ...mixed.slice(2)], [[null, "OK"], [null, 2], [null, { f: "1", g: "\r\n" }], [null, null]]);
  for (const value of BINARY) {
    await client.set("binary", value);
    equal(await client.getBuffer("binary"), value);
  }
  const keys = new Set();
  for await (const page of client.scanStream({ match: "p:49*", count: 1_000 })) page.forEach((key) => keys.add(key));
  equal(keys.size, 111);
}

async function checkMulti() {
  const client = connect();
  await client.del("a", "b");
  equal(
    await client.multi().set("a", "x").incrby("b", 3).get("a").hgetall("hash").get("none").exec(),
    [[null, "OK"], [null, 3], [null, "x"], [null, { f: "1", g: "\r\n" }], [null, null]],
  );
  const found = await client.multi().set("a", "1").hset("a", "f", "v").set("b", "2").exec();
  contains(found[1][0], "WRONGTYPE");
  equal([found[0], found[2]], [[null, "OK"], [null, "OK"]]);
  // An error while queueing leaves nothing done.
  const error = await fails(client.multi().set("a", "not done").call("GET", "a", "b", "c").exec(), "EXECABORT");
  contains(error.previousErrors?.[0] ?? "", "wrong number of arguments");
  equal(await client.mget("a", "b"), ["1", "2"]);
  // Sent one by one.
  await client.multi({ pipeline: false });
  equal(await client.set("a", "3"), "QUEUED");
  equal(await client.exec(), [[null, "OK"]]);
  await client.multi({ pipeline: false });
  await client.set("a", "not done");
  equal(await client.discard(), "OK");
  equal(await client.get("a"), "3");
}

async function checkWatch() {
  const [client, other] = [connect(), connect()];
  await client.mset("w", "1", "x", "1");
  await client.watch("w", "x");
  await other.set("w", "2");
  equal(await client.multi().set("x", "not done").exec(), null);
  equal(await client.mget("w", "x"), ["2", "1"]);
  await client.watch("w");
  equal(await client.multi().set("x", "done").exec(), [[null, "OK"]]);
  await client.watch("w");
  await other.del("w");
  await client.unwatch();
  equal(await client.multi().get("x").exec(), [[null, "done"]]);
}

async function checkPubsub() {
  const [client, listener, arrivals] = [connect(), connect(), new Arrivals()];
  listener.on("messageBuffer", (channel, data) => arrivals.push("message", channel, data));
  listener.on("pmessageBuffer", (pattern, channel, data) => arrivals.push("pmessage", String(pattern), channel, data));
  const [news, odd, data] = [Buffer.from("news"), Buffer.from("\xff\r\n", "latin1"), Buffer.from([0, 255])];
  equal(await listener.subscribe("news", odd), 2);
  equal(await listener.psubscribe("n[ae]*"), 3);
  equal(await client.pubsub("NUMPAT"), 1);
  equal(await client.pubsub("NUMSUB", "news", "none"), ["news", 1, "none", 0]);
  equal(await client.publish("news", data), 2);
  equal(await arrivals.take(), ["message", news, data]);
  equal(await arrivals.take(), ["pmessage", "n[ae]*", news, data]);
  equal(await client.publish(odd, ""), 1);
  equal(await arrivals.take(), ["message", odd, Buffer.alloc(0)]);
  await listener.ping();
  if (resp === 3) {
    // In RESP3 a subscribed connection takes every command.
    equal(await listener.get("none"), null);
  } else {
    // ioredis itself refuses it, and what it lets through is refused by the server.
    await fails(listener.get("none"), "subscriber mode");
  }
  equal(await client.multi().set("a", "1").publish("news", "in exec").exec(), [[null, "OK"], [null, 2]]);
  equal(await arrivals.take(), ["message", news, Buffer.from("in exec")]);
  equal((await arrivals.take())[0], "pmessage");
  const counts = await Promise.all(Array.from({ length: 1_000 }, (_, index) => client.publish(odd, String(index))));
  equal(counts, Array(1_000).fill(1));
  for (let index = 0; index < 1_000; index++) equal((await arrivals.take())[2], Buffer.from(String(index)));
  equal(await listener.unsubscribe("news"), 2);
  // By name: this client never resolves one without arguments while it has other subscriptions.
  equal(await listener.punsubscribe("n[ae]*"), 1);
  equal(await listener.unsubscribe(odd), 0);
  equal(await client.publish("news", "x"), 0);
  // Back to an ordinary connection.
  equal(await listener.get("none"), null);
  equal(arrivals.left, 0);
}

async function checkIdem() {
  const client = connect();
  const idem = (...args) => client.callBuffer("IDEM", ...args);
  const bytes = (text) => Buffer.from(text, "latin1");
  const [fingerprint, owner] = [bytes("\xff\0\r\n"), bytes("owner \x80")];
  for (const [index, result] of BINARY.entries()) {
    const key = bytes(`job:\xfe\r\n${index}`);
    equal(await idem(key, "BEGIN", fingerprint, owner, 60_000), [bytes("acquired")]);
    equal(await idem(key, "BEGIN", fingerprint, owner, 60_000), [bytes("pending")]);
    equal(await idem(key, "BEGIN", "another", owner, 60_000), [bytes("conflict")]);
    equal(await idem(key, "COMPLETE", fingerprint, "somebody", result), 0);
    equal(await idem(key, "COMPLETE", fingerprint, owner, result), 1);
    equal(await idem(key, "BEGIN", fingerprint, "somebody", 60_000), [bytes("completed"), result]);
    const found = await idem(key, "INSPECT");
    const entries = Array.isArray(found) ? found : [...(found.entries?.() ?? Object.entries(found))].flat();
    equal(String(entries[0]), "state");
    equal([entries[5], entries[11]], [owner, result.length]);
  }
  equal(await idem("job:none", "INSPECT"), null);
  await fails(idem("k", "BEGIN", "f", "o", 0), "not an integer or out of range");
  equal(await client.call("IDEM", "job:tx", "BEGIN", "f", "o", 60_000), ["acquired"]);
  await client.del("once", "limit");
  const done = await client.multi()
    .callBuffer("IDEM", "job:tx", "COMPLETE", "f", "o", Buffer.from([255]))
    .call("ONCE", "once", 60_000).call("LIMIT", "limit", 1, 60_000).call("LIMIT", "limit", 1, 60_000).set("effect", "x")
    .callBuffer("IDEM", "job:tx", "BEGIN", "f", "p", 60_000)
    .exec();
  equal(done, [[null, 1], [null, 1], [null, 0], [null, null], [null, "OK"], [null, [bytes("completed"), Buffer.from([255])]]]);
}

async function checkReconnect() {
  const [client, listener, arrivals] = [connect(), connect(), new Arrivals()];
  await client.set("kept", "é");
  listener.on("message", arrivals.push);
  await listener.subscribe("after");
  await restart();
  // Commands wait in the client's own queue until it is connected again.
  equal(await client.get("kept"), "é");
  equal(field(await client.client("INFO"), "resp"), String(resp));
  await until("the listener is back", async () => (await client.publish("after", "the restart")) === 1);
  equal(await arrivals.take(), ["after", "the restart"]);
}

const steps = { connect: checkConnect, pipeline: checkPipeline, multi: checkMulti, watch: checkWatch, pubsub: checkPubsub, idem: checkIdem, reconnect: checkReconnect };
await connect().flushall();
await run(Object.fromEntries(Object.entries(steps).map(([name, step]) => [name, () => step().finally(close)])));

// node-redis in its default configuration, and with RESP2: node_redis.mjs HOST PORT PROTOCOL TARGET STEP…
// PROTOCOL is `default` or `2`, TARGET `idemd` or `redis`.

import { createRequire } from "node:module";
import { Arrivals, BINARY, contains, equal, fails, host, port, protocol, resp, restart, run, target, until } from "./common.mjs";

// The packages lie in a directory of the build, named by NODE_PATH, which `import` does not look at.
const require = createRequire(import.meta.url);
const { createClient, RESP_TYPES } = require("redis");

const opened = [];

async function connect(more = {}) {
  const options = { url: `redis://${host}:${port}`, ...more };
  if (protocol !== "default") options.RESP = Number(protocol);
  const client = createClient(options);
  // Lost connections are part of the test; without a listener each ends the process.
  client.on("error", () => {});
  opened.push(client);
  await client.connect();
  return client;
}

/** The same connection with bytes as bytes. */
const binary = (client) => client.withTypeMapping({ [RESP_TYPES.BLOB_STRING]: Buffer });

function close() {
  for (const client of opened.splice(0)) client.destroy();
}

async function checkConnect() {
  const client = await connect({ name: "first" });
  equal(await client.ping(), "PONG");
  equal(await client.clientGetName(), "first");
  const me = await client.clientInfo();
  equal([me.name, me.resp ?? resp], ["first", resp]);
  contains((await client.clientList()).map((other) => other.name), "first");
  if (target === "idemd") {
    const line = await client.sendCommand(["CLIENT", "INFO"]);
    contains(line, "lib-name=node-redis");
    await fails(client.sendCommand(["CLIENT", "MAINT_NOTIFICATIONS", "ON"]), "ERR");
    if (resp === 3) {
      // Caching in the client needs the server's help: whoever asks for it is told so, and not left with stale data.
      const options = { clientSideCache: { ttl: 0 }, RESP: 3, socket: { reconnectStrategy: false } };
      await fails(connect(options), "client-side caching");
      opened.pop();
    }
  }
  contains(await client.info("replication"), "role:master");
  equal(await binary(client).echo("\r\n"), Buffer.from("\r\n"));
  equal((await client.role()).role, "master");
  equal(await client.configGet("nosuchoption"), {});
  equal((await client.commandInfo(["get"]))[0].arity, 2);
  await fails(client.sendCommand(["NOSUCHCOMMAND"]), "unknown command");
  await fails(client.sendCommand(["CLUSTER", "SLOTS"]), "cluster support disabled");
  const other = await connect({ database: 5 });
  await other.set("in five", "é");
  equal([await other.get("in five"), await client.get("in five")], ["é", null]);
  await other.flushDb();
  await other.close();
  equal((await client.clientInfo()).id, me.id);
}

async function checkPipeline() {
  const client = await connect();
  // What is asked in one turn goes out in one write.
  const asked = [];
  for (let index = 0; index < 5_000; index++) asked.push(client.set(`p:${index}`, index.toString()), client.get(`p:${index}`));
  const found = await Promise.all(asked);
  equal(found.filter((_, at) => at % 2 === 1), Array.from({ length: 5_000 }, (_, index) => String(index)));
  const mixed = await Promise.allSettled([
    client.set("text", "a"), client.incr("text"), client.hSet("hash", { f: "1", g: "\r\n" }), client.hGetAll("hash"), client.get("none"),
  ]);
  contains(mixed[1].reason, "not an integer");
  equal([mixed[0], ...mixed.slice(2)].map((one) => one.value), ["OK", 2, { f: "1", g: "\r\n" }, null]);
  equal(await client.multi().set("a", "1").get("a").execAsPipeline(), ["OK", "1"]);
  for (const value of BINARY) {
    await client.set("binary", value);
    equal(await binary(client).get("binary"), value);
  }
  const keys = new Set();
  for await (const page of client.scanIterator({ MATCH: "p:49*", COUNT: 1_000 })) page.forEach((key) => keys.add(key));
  equal(keys.size, 111);
}

async function checkMulti() {
  const client = await connect();
  await client.del(["a", "b"]);
  equal(
    await client.multi().set("a", "x").incrBy("b", 3).get("a").hGetAll("hash").get("none").exec(),
    ["OK", 3, "x", { f: "1", g: "\r\n" }, null],
  );
  // An error inside of EXEC leaves the others done.
  const error = await fails(client.multi().set("a", "1").hSet("a", "f", "v").set("b", "2").exec(), "MultiErrorReply");
  contains(error.replies[1], "WRONGTYPE");
  equal([error.replies[0], error.replies[2], error.errorIndexes], ["OK", "OK", [1]]);
  // An error while queueing leaves nothing done.
  await fails(client.multi().set("a", "not done").addCommand(["GET", "a", "b", "c"]).exec(), "wrong number of arguments");
  equal(await client.mGet(["a", "b"]), ["1", "2"]);
}

async function checkWatch() {
  const [client, other] = [await connect(), await connect()];
  await client.mSet({ w: "1", x: "1" });
  await client.watch(["w", "x"]);
  await other.set("w", "2");
  await fails(client.multi().set("x", "not done").exec(), "WatchError");
  equal(await client.mGet(["w", "x"]), ["2", "1"]);
  await client.watch("w");
  equal(await client.multi().set("x", "done").exec(), ["OK"]);
  await client.watch("w");
  await other.del("w");
  await client.unwatch();
  equal(await client.multi().get("x").exec(), ["done"]);
}

async function checkPubsub() {
  const [client, listener, arrivals] = [await connect(), await connect(), new Arrivals()];
  const [news, odd, data] = [Buffer.from("news"), Buffer.from("\xff\r\n", "latin1"), Buffer.from([0, 255])];
  const arrived = (message, channel) => arrivals.push(channel, message);
  await listener.subscribe("news", arrived, true);
  await listener.pSubscribe("n[ae]*", arrived, true);
  await listener.subscribe("many", arrived);
  equal(await client.pubSubNumPat(), 1);
  equal(await client.pubSubNumSub(["news", "none"]), { news: 1, none: 0 });
  equal(await client.publish("news", data), 2);
  equal(await arrivals.take(), [news, data]);
  equal(await arrivals.take(), [news, data]);
  equal(await client.publish(odd, ""), 0);
  await listener.ping();
  if (resp === 3) {
    // In RESP3 a subscribed connection takes every command.
    equal(await listener.get("none"), null);
  }
  equal(await client.multi().set("a", "1").publish("news", "in exec").exec(), ["OK", 2]);
  equal((await arrivals.take())[1], Buffer.from("in exec"));
  equal((await arrivals.take())[1], Buffer.from("in exec"));
  const counts = await Promise.all(Array.from({ length: 1_000 }, (_, index) => client.publish("many", String(index))));
  equal(counts, Array(1_000).fill(1));
  for (let index = 0; index < 1_000; index++) equal(await arrivals.take(), ["many", String(index)]);
  await listener.unsubscribe("news");
  equal(await client.publish("news", "x"), 1);
  equal((await arrivals.take())[1], Buffer.from("x"));
  await listener.pUnsubscribe();
  await listener.unsubscribe();
  equal(await client.publish("news", "x"), 0);
  // Back to an ordinary connection.
  equal(await listener.get("none"), null);
  equal(arrivals.left, 0);
}

async function checkIdem() {
  const client = await connect();
  const inBytes = binary(client);
  const idem = (...args) => inBytes.sendCommand(["IDEM", ...args]);
  const bytes = (text) => Buffer.from(text, "latin1");
  const [fingerprint, owner] = [bytes("\xff\0\r\n"), bytes("owner \x80")];
  for (const [index, result] of BINARY.entries()) {
    const key = bytes(`job:\xfe\r\n${index}`);
    equal(await idem(key, "BEGIN", fingerprint, owner, "60000"), [bytes("acquired")]);
    equal(await idem(key, "BEGIN", fingerprint, owner, "60000"), [bytes("pending")]);
    equal(await idem(key, "BEGIN", "another", owner, "60000"), [bytes("conflict")]);
    equal(await idem(key, "COMPLETE", fingerprint, "somebody", result), 0);
    equal(await idem(key, "COMPLETE", fingerprint, owner, result), 1);
    equal(await idem(key, "BEGIN", fingerprint, "somebody", "60000"), [bytes("completed"), result]);
    const found = await idem(key, "INSPECT");
    if (resp === 3) {
      equal(Object.keys(found).slice(0, 3), ["state", "fingerprint", "owner"]);
      equal([found.owner, found.result_bytes], [owner, result.length]);
    } else {
      equal([found[5], found[11]], [owner, result.length]);
    }
  }
  equal(await idem("job:none", "INSPECT"), null);
  await fails(idem("k", "BEGIN", "f", "o", "0"), "not an integer or out of range");
  equal(await client.sendCommand(["IDEM", "job:tx", "BEGIN", "f", "o", "60000"]), ["acquired"]);
  await client.del(["once", "limit"]);
  // In a transaction this client reads every reply as text; the bytes are looked at afterwards.
  const done = await client.multi()
    .addCommand(["IDEM", "job:tx", "COMPLETE", "f", "o", Buffer.from([255])])
    .addCommand(["ONCE", "once", "60000"])
    .addCommand(["LIMIT", "limit", "1", "60000"])
    .addCommand(["LIMIT", "limit", "1", "60000"])
    .set("effect", "x")
    .addCommand(["IDEM", "job:tx", "BEGIN", "f", "p", "60000"])
    .exec();
  equal(done, [1, 1, 0, null, "OK", ["completed", "\ufffd"]]);
  equal(await idem("job:tx", "BEGIN", "f", "p", "60000"), [bytes("completed"), Buffer.from([255])]);
}

async function checkReconnect() {
  const [client, listener, arrivals] = [await connect(), await connect(), new Arrivals()];
  await client.set("kept", "é");
  await listener.subscribe("after", (message, channel) => arrivals.push(channel, message));
  await restart();
  // Commands wait in the client's own queue until it is connected again.
  equal(await client.get("kept"), "é");
  await until("the listener is back", async () => (await client.publish("after", "the restart")) === 1);
  equal(await arrivals.take(), ["after", "the restart"]);
}

const steps = { connect: checkConnect, pipeline: checkPipeline, multi: checkMulti, watch: checkWatch, pubsub: checkPubsub, idem: checkIdem, reconnect: checkReconnect };
await (await connect()).flushAll();
await run(Object.fromEntries(Object.entries(steps).map(([name, step]) => [name, () => step().finally(close)])));

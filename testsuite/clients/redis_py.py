"""redis-py in its default configuration, and with RESP2: redis_py.py HOST PORT PROTOCOL TARGET.

PROTOCOL is `default` or `2`, TARGET `idemd` or `redis`. See README.md for what is printed and asked.
"""

import asyncio
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import redis
import redis.asyncio
from redis.cache import CacheConfig

HOST, PORT, PROTOCOL, TARGET = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]
OPTIONS = {} if PROTOCOL == "default" else {"protocol": int(PROTOCOL)}
RESP = 3 if PROTOCOL == "default" else int(PROTOCOL)
# Seconds for what comes by itself: a message, a server that is starting.
PATIENCE = 20
# Bytes that text handling breaks: none, line ends, zero, every byte, no UTF-8, longer than any buffer.
BINARY = [b"", b"\r\n", b"\0", bytes(range(256)), b"\xff\xfe\r\n$-1\r\n", b"\xc3\x28" * 500_000]


def connect(**more):
    return redis.Redis(HOST, PORT, **OPTIONS, **more)


def equal(found, expected):
    assert found == expected, f"found {found!r:.300}, expected {expected!r:.300}"


def raises(kind, text, call):
    try:
        found = call()
    except kind as error:
        assert text in str(error), f"{error!r} does not say {text!r}"
        return
    raise AssertionError(f"{kind.__name__} expected, found {found!r:.300}")


def until(done):
    end = time.monotonic() + PATIENCE
    while not done():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.01)


def check_connect():
    client = connect(client_name="first")
    equal(client.ping(), True)
    equal(client.echo(b"\r\n"), b"\r\n")
    equal(client.client_getname() in ("first", b"first"), True)
    assert client.client_id() > 0
    info = client.info()
    equal((info["role"], info["loading"]), ("master", 0))
    me = client.client_info()
    equal((me["name"], me["resp"]), ("first", str(RESP)))
    names = [other["name"] for other in client.client_list()]
    assert "first" in names, names
    if TARGET == "idemd":
        equal((me["lib-name"], me["lib-ver"]), ("redis-py", redis.__version__))
        raises(redis.ResponseError, "", lambda: client.execute_command("CLIENT", "MAINT_NOTIFICATIONS", "ON"))
    equal("maxmemory" in client.config_get("maxmem*"), True)
    assert client.command_count() > 50
    assert "get" in client.command()
    if TARGET == "idemd" and RESP == 3:
        # Caching in the client needs the server's help: whoever asks for it is told so, and not left with stale data.
        cached = connect(cache_config=CacheConfig())
        raises(redis.ResponseError, "client-side caching", lambda: cached.get("a"))
    equal(client.role()[0] in (b"master", "master"), True)
    raises(redis.ResponseError, "unknown command", lambda: client.execute_command("NOSUCHCOMMAND", "a"))
    raises(redis.ResponseError, "cluster support disabled", lambda: client.execute_command("CLUSTER", "INFO"))
    # A database of its own on each new connection, and text instead of bytes.
    other = connect(db=5, decode_responses=True)
    other.set("in five", "é")
    equal((other.get("in five"), client.exists("in five")), ("é", 0))
    other.flushdb()
    # After the errors the connection is still the same one.
    equal(client.client_info()["id"], me["id"])
    client.close()
    other.close()

    async def with_asyncio():
        async with redis.asyncio.Redis(host=HOST, port=PORT, **OPTIONS) as client:
            await client.set("async", b"\xff")
            found = await asyncio.gather(*(client.get("async") for _ in range(20)))
            equal(found, [b"\xff"] * 20)

    asyncio.run(with_asyncio())


def check_pipeline():
    client = connect()
    pipe = client.pipeline(transaction=False)
    for index in range(5_000):
        pipe.set(f"p:{index}", index)
        pipe.get(f"p:{index}")
    equal(pipe.execute()[1::2], [str(index).encode() for index in range(5_000)])
    # An error takes its own place and no other's.
    pipe.set("text", "a").incr("text").hset("hash", mapping={b"\xff": b"\r\n", "f": 1}).hgetall("hash").get("none")
    found = pipe.execute(raise_on_error=False)
    assert isinstance(found[1], redis.ResponseError), found
    equal(found[2:], [2, {b"\xff": b"\r\n", b"f": b"1"}, None])
    for value in BINARY:
        client.set(value or b"empty", value)
        equal(client.get(value or b"empty"), value)
    equal(sorted(client.scan_iter("p:49*", count=1000))[:2], [b"p:49", b"p:490"])
    equal(client.expire("text", 100), True)
    assert 0 < client.ttl("text") <= 100
    client.close()


def check_multi():
    client = connect()
    client.delete("a", "b")
    with client.pipeline() as pipe:
        pipe.set("a", b"\xff").incrby("b", 3).get("a").hgetall("hash").get("none")
        equal(pipe.execute(), [True, 3, b"\xff", {b"\xff": b"\r\n", b"f": b"1"}, None])
        # An error inside of EXEC leaves the others done.
        pipe.set("a", "1").hset("a", "f", "v").set("b", "2")
        found = pipe.execute(raise_on_error=False)
        equal((found[0], type(found[1]), found[2]), (True, redis.ResponseError, True))
        assert str(found[1]).startswith("WRONGTYPE"), found
        # An error while queueing leaves nothing done.
        pipe.set("a", "not done")
        pipe.execute_command("GET", "a", "b", "c")
        raises(redis.ResponseError, "wrong number of arguments", pipe.execute)
        equal(client.mget("a", "b"), [b"1", b"2"])
        pipe.multi()
        equal(pipe.execute(), [])
    client.close()


def check_watch():
    client, other = connect(), connect()
    client.mset({"w": "1", "x": "1"})
    with client.pipeline() as pipe:
        pipe.watch("w", "x")
        equal(pipe.get("w"), b"1")
        other.set("w", "2")
        pipe.multi()
        pipe.set("x", "not done")
        raises(redis.WatchError, "", pipe.execute)
        equal(client.mget("w", "x"), [b"2", b"1"])
        # What was not touched since does not abort, nor does anything after UNWATCH.
        pipe.watch("w")
        pipe.multi()
        pipe.set("x", "done")
        equal(pipe.execute(), [True])
        pipe.watch("w")
        other.set("w", "3")
        pipe.unwatch()
        pipe.multi()
        pipe.get("w")
        equal(pipe.execute(), [b"3"])
    # The client's own helper tries again until nobody was in between.
    tries = []

    def increment(pipe):
        tries.append(pipe.get("w"))
        if len(tries) == 1:
            other.set("w", "10")
        pipe.multi()
        pipe.incr("w")

    equal((client.transaction(increment, "w"), tries), ([11], [b"3", b"10"]))
    client.close()
    other.close()


def check_pubsub():
    client = connect()
    listener = client.pubsub()
    take = lambda: listener.get_message(timeout=PATIENCE)
    fields = lambda message: (message["type"], message["pattern"], message["channel"], message["data"])
    listener.subscribe("news", b"\xff\r\n")
    listener.psubscribe("n[ae]*")
    equal(fields(take()), ("subscribe", None, b"news", 1))
    equal(fields(take()), ("subscribe", None, b"\xff\r\n", 2))
    equal(fields(take()), ("psubscribe", None, b"n[ae]*", 3))
    equal(client.pubsub_numpat(), 1)
    equal(client.pubsub_numsub("news", "none"), [(b"news", 1), (b"none", 0)])
    equal(sorted(client.pubsub_channels()), [b"news", b"\xff\r\n"])
    equal(client.publish("news", b"\0\xff"), 2)
    equal(fields(take()), ("message", None, b"news", b"\0\xff"))
    equal(fields(take()), ("pmessage", b"n[ae]*", b"news", b"\0\xff"))
    equal(client.publish(b"\xff\r\n", b""), 1)
    equal(fields(take()), ("message", None, b"\xff\r\n", b""))
    listener.ping(b"still there")
    equal(fields(take()), ("pong", None, None, b"still there"))
    # A second one, and many messages in their order.
    second = client.pubsub(ignore_subscribe_messages=True)
    second.subscribe("many")
    second.get_message(timeout=1)
    with client.pipeline(transaction=False) as pipe:
        for index in range(1_000):
            pipe.publish("many", index)
        equal(pipe.execute(), [1] * 1_000)
    found = [second.get_message(timeout=PATIENCE) for _ in range(1_000)]
    equal([int(message["data"]) for message in found], list(range(1_000)))
    # Of a transaction, too.
    with client.pipeline() as pipe:
        equal(pipe.set("a", "1").publish("news", "in exec").execute(), [True, 2])
    equal(fields(take())[3], b"in exec")
    equal(fields(take())[0], "pmessage")
    listener.unsubscribe("news")
    equal(fields(take()), ("unsubscribe", None, b"news", 2))
    equal(client.publish("news", "x"), 1)
    equal(fields(take())[0], "pmessage")
    listener.punsubscribe()
    equal(fields(take()), ("punsubscribe", None, b"n[ae]*", 1))
    listener.unsubscribe()
    equal(fields(take()), ("unsubscribe", None, b"\xff\r\n", 0))
    equal(client.publish("news", "x"), 0)
    listener.close()
    second.close()
    until(lambda: client.pubsub_channels() == [])
    client.close()


def check_idem():
    client = connect()
    idem = lambda key, *args: client.execute_command("IDEM", key, *args)
    fingerprint, owner = b"\xff\0\r\n", b"owner \x80"
    for index, result in enumerate(BINARY):
        key = b"job:\xfe\r\n%d" % index
        equal(idem(key, "BEGIN", fingerprint, owner, 60_000), [b"acquired"])
        equal(idem(key, "BEGIN", fingerprint, owner, 60_000), [b"pending"])
        equal(idem(key, "BEGIN", "another", owner, 60_000), [b"conflict"])
        equal(idem(key, "COMPLETE", fingerprint, "somebody", result), 0)
        equal(idem(key, "COMPLETE", fingerprint, owner, result), 1)
        equal(idem(key, "BEGIN", fingerprint, "somebody", 60_000), [b"completed", result])
        found = idem(key, "INSPECT")
        # A map in RESP3, a flat list in RESP2.
        found = found if RESP == 3 else dict(zip(found[::2], found[1::2]))
        equal(list(found)[:3], [b"state", b"fingerprint", b"owner"])
        equal((found[b"owner"], found[b"result_bytes"]), (owner, len(result)))
    equal(idem("job:none", "INSPECT"), None)
    equal(idem("job:freed", "BEGIN", "f", "o", 60_000), [b"acquired"])
    equal(idem("job:freed", "ABORT", "f", "o"), 1)
    # Threads share the client, each takes a connection of its own: one of them acquires.
    with ThreadPoolExecutor(16) as threads:
        race = lambda owner: idem("job:race", "BEGIN", "f", f"owner {owner}", 60_000)
        found = list(threads.map(race, range(200)))
    equal((found.count([b"acquired"]), found.count([b"pending"])), (1, 199))
    raises(redis.ResponseError, "not an integer or out of range", lambda: idem("k", "BEGIN", "f", "o", 0))
    raises(redis.ResponseError, "WRONGTYPE", lambda: idem("hash", "INSPECT"))
    # With the effect it guards, in one transaction.
    idem("job:tx", "BEGIN", "f", "o", 60_000)
    client.delete("once", "effect")
    with client.pipeline() as pipe:
        pipe.execute_command("IDEM", "job:tx", "COMPLETE", "f", "o", b"\xff")
        pipe.execute_command("ONCE", "once", 60_000)
        pipe.execute_command("LIMIT", "limit", 1, 60_000)
        pipe.execute_command("LIMIT", "limit", 1, 60_000)
        pipe.set("effect", b"\xfe").execute_command("IDEM", "job:tx", "BEGIN", "f", "p", 60_000)
        equal(pipe.execute(), [1, 1, 0, None, True, [b"completed", b"\xff"]])
    client.close()


def check_reconnect():
    client = connect()
    client.set("kept", b"\xff")
    listener = client.pubsub()
    listener.subscribe("after")
    equal(listener.get_message(timeout=PATIENCE)["type"], "subscribe")
    print("restart", flush=True)
    equal(sys.stdin.readline(), "restarted\n")
    # The default retries are the client's own; none of the calls has to be repeated here.
    equal(client.get("kept"), b"\xff")
    equal(client.client_info()["resp"], str(RESP))
    # The listener notices, connects, and subscribes again by itself.
    message = None
    while message is None or message["type"] != "message":
        message = listener.get_message(timeout=1)
        client.publish("after", "the restart")
    equal((message["channel"], message["data"]), (b"after", b"the restart"))
    listener.close()
    client.close()


connect().flushall()
for step in sys.argv[5:]:
    globals()[f"check_{step}"]()
    print(f"ok {step}", flush=True)

#!/usr/bin/env python3
"""Writes the golden vectors (*.hex) beside this file.

A second, independent implementation of the layouts in docs/wal-format.md: it shares no code with the
Rust codecs, so a vector says what the format is and not what the encoder happens to do. Run it only when
a format changes on purpose: `python3 protocol/testdata/vectors.py`. Standard library only.
"""

import pathlib
import struct
import zlib

HERE = pathlib.Path(__file__).parent
NONE = 2**64 - 1

NODE_A = bytes(range(0x10, 0x20))
NODE_B = bytes(range(0x20, 0x30))
CLUSTER = bytes(range(0xC0, 0xD0))
SALT = bytes(range(0x50, 0x58))
EPOCH = (7, 0x1122334455667788)
BEFORE = (6, 0x99AABBCCDDEEFF00)
TIME = 1_700_000_000_123
DEADLINE = TIME + 86_400_000
FINGERPRINT = bytes(range(0x40, 0x80))
OWNER = bytes(range(0xA0, 0xC0))


# --- rows: (bytes, comment) ---------------------------------------------------------------------


def u8(value, what):
    return [(struct.pack("<B", value), what)]


def u32(value, what):
    return [(struct.pack("<I", value), what)]


def u64(value, what):
    return [(struct.pack("<Q", value), what)]


def raw(data, what):
    return [(data, what)]


def string(data, what):
    rows = u32(len(data), f"length of {what}")
    return rows + raw(data, what) if data else rows


def epoch(value, what="epoch"):
    return u64(value[0], f"{what}: number") + u64(value[1], f"{what}: nonce")


def join(rows):
    return b"".join(data for data, _ in rows)


def crc(data):
    return zlib.crc32(data) & 0xFFFFFFFF


# --- IDEM and LIMIT records ---------------------------------------------------------------------


def idem(state, fingerprint, owner, result=b""):
    words = ["pending", "completed", "aborted"]
    rows = raw(b"IDM", 'magic "IDM"') + u8(1, "format version 1") + u8(state, f"state: {words[state]}")
    rows += u8(len(fingerprint), "fingerprint length") + u8(len(owner), "owner length")
    rows += u32(len(result), "result length") + raw(fingerprint, "fingerprint") + raw(owner, "owner")
    return rows + (raw(result, "result") if result else [])


def limit(mode, maximum, window_ms, start_ms, tail):
    words = ["fixed window", "sliding window", "tokens"]
    rows = raw(b"LMT", 'magic "LMT"') + u8(1, "format version 1") + u8(mode, f"mode: {words[mode]}")
    return rows + u32(maximum, "max") + u32(window_ms, "window, ms") + u64(start_ms, "window start, ms") + tail


# --- log records --------------------------------------------------------------------------------


def record(lsn, time, opcode, name, db, body):
    length = struct.pack("<I", len(join(body)))
    stamp = struct.pack("<Q", time)
    assert stamp[6:] == b"\0\0"
    tail = struct.pack("<Q", lsn) + stamp[:6] + bytes([opcode, db]) + join(body)
    rows = raw(length, "body length")
    rows += u32(crc(length + tail), "CRC-32 of the length and of everything from the lsn on")
    rows += u64(lsn, f"lsn {lsn}") + raw(stamp[:6], "time, Unix ms") + u8(opcode, f"opcode {opcode} {name}")
    return rows + u8(db, f"database {db}") + body


def string_put(key, deadline, value):
    return string(key, "key") + u64(deadline, "deadline, Unix ms") + string(value, "value")


def hash_put(key, deadline, pairs):
    rows = string(key, "key") + u64(deadline, "deadline, Unix ms") + u32(len(pairs), "field count")
    for field, value in pairs:
        rows += string(field, "field") + string(value, "value")
    return rows


def hash_delete(key, fields):
    rows = string(key, "key") + u32(len(fields), "field count")
    for field in fields:
        rows += string(field, "field")
    return rows


def idempotency_put(key, deadline, rows):
    return string(key, "key") + u64(deadline, "deadline, Unix ms; never 0") + rows


def transaction(parts):
    rows = u32(len(parts), "part count")
    for opcode, name, db, body in parts:
        rows += u8(opcode, f"part: opcode {opcode} {name}") + u8(db, f"part: database {db}")
        rows += u32(len(join(body)), "part: body length") + body
    return rows


def member_list(members):
    rows = u32(len(members), "member count")
    for node, address in members:
        rows += raw(node, "member: node id") + string(address, "address")
    return rows


def epoch_start(value, node, previous, reason, word):
    rows = epoch(value) + raw(node, "node id") + epoch(previous, "previous epoch")
    return rows + u8(reason, f"reason: {word}")


PENDING = idem(0, FINGERPRINT, OWNER)
COMPLETED = idem(1, FINGERPRINT, OWNER, b"paid\r\n\x00\xff")
EMPTY = idem(1, FINGERPRINT, OWNER)
ABORTED = idem(2, FINGERPRINT, OWNER)
MEMBERS = [(NODE_A, b"10.0.0.1:6379"), (NODE_B, b"[fd00::2]:6379")]

RECORDS = [
    ("string-put", 1, "StringPut", 0, string_put(b"greeting", DEADLINE, b"hello\r\n")),
    ("string-put-forever", 1, "StringPut", 255, string_put(b"", 0, b"")),
    ("delete-command", 2, "Delete", 0, u8(0, "reason: command") + string(b"greeting", "key")),
    ("delete-evicted", 2, "Delete", 3, u8(1, "reason: evicted") + string(b"\x00\xff", "key")),
    ("deadline-put", 3, "DeadlinePut", 0, string(b"greeting", "key") + u64(DEADLINE, "deadline, Unix ms")),
    ("deadline-put-none", 3, "DeadlinePut", 0, string(b"greeting", "key") + u64(0, "deadline: none")),
    ("hash-put", 4, "HashPut", 1, hash_put(b"cart", DEADLINE, [(b"apple", b"3"), (b"", b"")])),
    ("hash-delete", 5, "HashDelete", 1, hash_delete(b"cart", [b"apple", b"pear"])),
    ("flush-db", 6, "FlushDb", 9, []),
    ("flush-all", 7, "FlushAll", 0, []),
    (
        "transaction",
        32,
        "Transaction",
        0,
        transaction(
            [
                (1, "StringPut", 0, string_put(b"a", 0, b"1")),
                (2, "Delete", 0, u8(0, "reason: command") + string(b"b", "key")),
                (3, "DeadlinePut", 1, string(b"c", "key") + u64(DEADLINE, "deadline, Unix ms")),
                (4, "HashPut", 1, hash_put(b"d", 0, [(b"f", b"v")])),
                (5, "HashDelete", 1, hash_delete(b"d", [b"f"])),
                (6, "FlushDb", 2, []),
                (53, "IdempotencyPut", 0, idempotency_put(b"order:1", DEADLINE, idem(0, b"f", b"o"))),
            ]
        ),
    ),
    ("epoch-start", 48, "EpochStart", 0, epoch_start(EPOCH, NODE_A, BEFORE, 0, "start")),
    ("epoch-promotion", 48, "EpochStart", 0, epoch_start(EPOCH, NODE_B, BEFORE, 1, "promotion")),
    ("epoch-restore", 48, "EpochStart", 0, epoch_start((1, 0xABCDEF), NODE_B, (0, 0), 2, "restore")),
    ("members", 49, "Members", 0, u8(1, "members whose disks a reply waits for (N)") + member_list(MEMBERS)),
    ("clock", 50, "Clock", 0, []),
    ("idempotency-pending", 53, "IdempotencyPut", 0, idempotency_put(b"order:1", DEADLINE, PENDING)),
    ("idempotency-completed", 53, "IdempotencyPut", 0, idempotency_put(b"order:1", DEADLINE, COMPLETED)),
    ("idempotency-completed-empty", 53, "IdempotencyPut", 0, idempotency_put(b"order:2", DEADLINE, EMPTY)),
    ("idempotency-aborted", 53, "IdempotencyPut", 0, idempotency_put(b"order:1", DEADLINE, ABORTED)),
]


def records():
    """All records as one stream, one millisecond apart; the lsn passes 2^32 on the way."""
    lsn, time, vectors = 2**32 - 300, TIME, []
    for name, opcode, word, db, body in RECORDS:
        rows = record(lsn, time, opcode, word, db, body)
        vectors.append((name, rows))
        lsn, time = lsn + len(join(rows)), time + 1
    return vectors


# --- frames and segments ------------------------------------------------------------------------


def frame_header(payload, lsn, synced, count, seal=False):
    flag = 2**31 if seal else 0
    head = raw(b"IFRM", 'magic "IFRM"') + u32(payload, "payload length")
    head += u64(lsn, f"lsn {lsn} of the first record") + u64(synced, f"synced lsn {synced}")
    head += u32(count | flag, f"record count {count}" + (", bit 31: seal" if seal else ""))
    return head + u32(crc(SALT + join(head)), "CRC-32 of the segment's salt, then of bytes 0-27")


def frames():
    first = record(1000, TIME, 50, "Clock", 0, [])
    second = record(1024, TIME, 1, "StringPut", 0, string_put(b"k", 0, b"v"))
    payload = first + second
    size = len(join(payload))
    group = frame_header(size, 1000, 900, 2) + payload
    padding = -len(join(group)) % 8
    group += raw(bytes(padding), "padding to a multiple of 8")
    end = 1000 + size
    return [("group", group), ("seal", frame_header(0, end, end, 0, seal=True))]


def segment_copy(first, value, before):
    rows = raw(b"IDEMWAL1", "magic") + u32(1, "format 1") + u32(0, "zero")
    rows += raw(NODE_A, "node id") + raw(CLUSTER, "cluster id") + u64(first, f"first lsn {first}")
    rows += raw(SALT, "salt") + epoch(value, "epoch in force at the first lsn")
    start, end, checksum = before or (0, 0, 0)
    none = "" if before else " (none)"
    rows += u64(start, f"predecessor's first lsn{none}") + u64(end, f"predecessor's end lsn{none}")
    rows += u32(checksum, f"CRC-32 of the predecessor's record bytes{none}")
    return rows + u32(crc(join(rows)), "CRC-32 of bytes 0-99")


def segment_page(first, value, before):
    copy = segment_copy(first, value, before)
    gap = raw(bytes(2048 - 104), "zero")
    return copy + gap + raw(join(copy), "the second copy") + gap


def segments():
    before = (0, 67108000, 0xDEADBEEF)
    return [("first", segment_page(0, (0, 0), None)), ("successor", segment_page(67108000, EPOCH, before))]


# --- snapshot and control file ------------------------------------------------------------------


def history(entries):
    rows = u32(len(entries), "history count")
    for value, node, first in entries:
        rows += epoch(value, "history: epoch") + raw(node, "history: node id")
        rows += u64(first, "history: lsn of its EpochStart")
    return rows


HISTORY = [(BEFORE, NODE_B, 0), (EPOCH, NODE_A, 4_000_000_000)]


def snapshot(start, items, end, value, end_crc, log_time, entries, required, members, databases):
    rows = raw(b"IDEMSNP1", "magic") + u32(1, "format 1") + u32(0, "zero")
    rows += raw(CLUSTER, "cluster id") + u64(start, f"start lsn {start}")
    rows += u32(crc(join(rows)), "CRC-32 of bytes 0-39")
    for item in items:
        rows += item
    rest = u64(end, f"end lsn {end}") + epoch(value)
    rest += u32(end_crc, "CRC of the record that ends at the end lsn") + u64(log_time, "log's time, Unix ms")
    rest += history(entries) + u8(required, "N") + member_list(members)
    rest += u32(len(databases), "database count")
    for db, keys in databases:
        rest += u8(db, f"database {db}") + u64(keys, f"keys in database {db}")
    rows += u32(0xFFFFFFFF, "no item has this length: the trailer begins")
    rows += u32(len(join(rest)) + 4, "length of the rest, the last CRC included") + rest
    return rows + u32(crc(join(rows)), "CRC-32 of all bytes before it")


def snapshots():
    items = [
        record(5000, TIME, 1, "StringPut", 0, string_put(b"greeting", 0, b"hello")),
        record(5000, TIME, 1, "StringPut", 0, string_put(b"order:1", DEADLINE, join(COMPLETED))),
        record(6000, TIME + 5, 4, "HashPut", 3, hash_put(b"cart", DEADLINE, [(b"apple", b"3")])),
    ]
    full = snapshot(5000, items, 7000, EPOCH, 0xCAFEF00D, TIME + 9, HISTORY, 1, MEMBERS, [(0, 2), (3, 1)])
    empty = snapshot(0, [], 0, (0, 0), 0, 0, [], 0, [], [])
    return [("full", full), ("empty", empty)]


def control(role, address, promised, entries, required, members, snapshot_at, segment_at, clean, pending, detail):
    body = raw(NODE_A, "node id") + raw(CLUSTER, "cluster id")
    body += u8(role, "role: " + ("follower" if role else "primary")) + string(address, "primary's address")
    body += u64(promised[0], "promised epoch") + raw(promised[1], "promised to node id")
    body += history(entries) + u8(required, "N") + member_list(members)
    for value, what in [
        (snapshot_at, "newest snapshot's start lsn"),
        (segment_at, "newest segment's first lsn"),
        (clean, "clean mark: end lsn"),
    ]:
        body += u64(value, what + (" (none)" if value == NONE else ""))
    body += u8(pending, "pending change") + string(detail, "pending change's details")
    rows = raw(b"IDEMCTL1", "magic") + u32(1, "format 1") + u32(len(join(body)), "body length") + body
    return rows + u32(crc(join(rows)), "CRC-32 of all bytes before it")


def controls():
    nobody = bytes(16)
    new = control(0, b"", (0, nobody), [], 0, [], NONE, 0, NONE, 0, b"")
    promised = (8, NODE_B)
    full = control(1, b"10.0.0.1:6379", promised, HISTORY, 1, MEMBERS, 5000, 4096, 7000, 2, "zurück".encode())
    return [("new-primary", new), ("follower", full)]


# --- link ---------------------------------------------------------------------------------------


def message(kind, name, body):
    length = 1 + len(join(body))
    return (name, u32(length, "length of type and body") + u8(kind, f"type {kind} {name}") + body)


def link_history():
    rows = u32(len(HISTORY), "history count")
    for (value, node, first), end_crc in zip(HISTORY, [0x01020304, 0xCAFEF00D]):
        rows += epoch(value, "history: epoch") + raw(node, "history: node id")
        rows += u64(first, "history: lsn of its EpochStart")
        rows += u32(end_crc, "history: CRC of the record that ends the epoch")
    return rows


def hello(kind, word, entries):
    rows = raw(NODE_B, "node id") + raw(CLUSTER, "cluster id") + string(b"10.0.0.2:6379", "address")
    rows += u8(kind, f"kind: {word}") + u32(1, "format version") + entries
    return rows + u64(7000, "durable end lsn") + u32(0xCAFEF00D, "CRC of the record that ends there")


def links():
    durable = u64(7000, "durable end lsn") + u32(0xCAFEF00D, "CRC of the record that ends there")
    who = epoch(EPOCH)
    piece = join(record(7000, TIME, 50, "Clock", 0, []))
    vectors = [
        message(1, "hello", hello(0, "follower", link_history())),
        message(2, "continue", u64(7000, "lsn")),
        message(3, "cut", u64(6500, "lsn of the fork")),
        message(4, "snapshot", u64(2**33, "size in bytes") + u64(5000, "start lsn")),
        message(5, "refuse", u8(3, "code") + string("another cluster – refused".encode(), "text")),
        message(6, "piece", who + u64(7000, "first lsn") + raw(piece, "bytes of the stream")),
        message(7, "heartbeat", who + u64(TIME, "time, Unix ms") + u64(7000, "sent lsn")),
        message(8, "ack", who + u64(7024, "received") + u64(7000, "durable") + u64(6999, "applied")),
        message(9, "promise?", u64(8, "epoch") + raw(NODE_B, "node id") + u8(1, "reason: promotion")),
        message(10, "promised", link_history() + durable),
        message(11, "refused", u64(9, "higher epoch") + raw(NODE_A, "node id")),
    ]
    name, rows = message(1, "hello", hello(1, "observer", u32(0, "history count")))
    return vectors + [(f"{name}-observer", rows)]


# --- files --------------------------------------------------------------------------------------


def lines(rows):
    offset = 0
    for data, what in rows:
        if len(data) > 16 and not any(data):
            yield f"{offset:04x} | 00 * {len(data)} | {what}"
            offset += len(data)
            continue
        for at in range(0, len(data), 16):
            piece = data[at : at + 16]
            comment = what if at == 0 else "…"
            yield f"{offset:04x} | {piece.hex(' ')} | {comment}"
            offset += len(piece)


def write(name, title, vectors):
    out = [f"# {title}", "# offset | bytes | what; made by vectors.py, see README.md", ""]
    for vector, rows in vectors:
        out += [f"[{vector}] {len(join(rows))} bytes", *lines(rows), ""]
    (HERE / f"{name}.hex").write_text("\n".join(out), encoding="utf-8")


def main():
    window = u32(9, "count")
    write(
        "idem-record",
        "IDEM record: the string that an idempotency key holds (aborted: only inside opcode 53)",
        [("pending", PENDING), ("completed", COMPLETED), ("completed-empty", EMPTY), ("aborted", ABORTED)],
    )
    write(
        "limit-record",
        "What ONCE and LIMIT store",
        [
            ("once", raw(b"1", "the marker of ONCE")),
            ("fixed", limit(0, 10, 60_000, TIME, window + u32(0, "previous: 0 in a fixed window"))),
            ("sliding", limit(1, 2**31 - 1, 2**32 - 1, TIME, window + u32(4, "previous"))),
            ("tokens", limit(2, 1_000_000, 1_000, TIME, u64(5 * 2**19, "level: 2.5 tokens, in 1/2^20"))),
        ],
    )
    write("record", "Log records, one stream: every opcode, opcode 53 in all of its states", records())
    write("frame", "Frames: a group of two records, and a seal; salt 50 51 52 53 54 55 56 57", frames())
    write("segment-header", "The first page of a segment, without and with a predecessor", segments())
    write("snapshot", "Whole snapshot files", snapshots())
    write("control", "Whole control files", controls())
    write("link", "Messages of the link, each type once", links())


if __name__ == "__main__":
    main()

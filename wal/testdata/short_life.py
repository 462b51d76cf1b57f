"""Writes short-life.hex beside this file: the bytes of a small log, computed from the format's description alone.

It shares no code with the product. Run it again only when the format changes: python3 short_life.py
"""
import pathlib
import struct
import zlib

SEGMENT_BYTES = 8192


def record(lsn, value_bytes):
    string = lambda b: struct.pack("<I", len(b)) + b
    body = string(b"key") + struct.pack("<Q", 0) + string(b"v" * value_bytes)
    length = struct.pack("<I", len(body))
    rest = struct.pack("<Q", lsn) + struct.pack("<Q", 1000)[:6] + bytes([1, 0]) + body
    return length + struct.pack("<I", zlib.crc32(length + rest)) + rest


def frame(salt, lsn, mark, records, seal=False):
    payload = b"".join(records)
    head = b"IFRM" + struct.pack("<IQQI", len(payload), lsn, mark, len(records) | seal << 31)
    whole = head + struct.pack("<I", zlib.crc32(salt + head)) + payload
    return whole + bytes(-len(whole) % 8)


def header_page(first, salt, epoch, nonce, predecessor=(0, 0, 0)):
    head = b"IDEMWAL1" + struct.pack("<II", 1, 0) + b"node-of-the-test" + b"cluster-of-tests"
    head += struct.pack("<Q", first) + salt + struct.pack("<QQQQI", epoch, nonce, *predecessor)
    head += struct.pack("<I", zlib.crc32(head))
    return (head + bytes(2048 - len(head))) * 2


def lines(data):
    """Runs of 32 equal bytes or more as count and byte, everything else as up to 64 bytes a line."""
    at = 0
    run = lambda i: next((k for k in range(i, len(data)) if data[k] != data[i]), len(data)) - i
    while at < len(data):
        if run(at) >= 32:
            yield "%d %02x" % (run(at), data[at])
            at += run(at)
            continue
        end = at
        while end < len(data) and end - at < 64 and run(end) < 32:
            end += 1
        yield data[at:end].hex()
        at = end


def main():
    ends, records = [0], []
    for value_bytes in (5, 0, 3790, 100):
        records.append(record(ends[-1], value_bytes))
        ends.append(ends[-1] + len(records[-1]))
    a, b = b"a" * 8, b"b" * 8
    first = [
        header_page(0, a, 0, 0),
        frame(a, 0, 0, records[0:1]),
        frame(a, ends[1], ends[1], records[1:2]),
        frame(a, ends[2], ends[2], [], seal=True),
        frame(a, ends[2], ends[2], records[2:3]),
    ]
    predecessor = (0, ends[3], zlib.crc32(b"".join(records[:3])))
    second = [
        header_page(ends[3], b, 7, 0x0102030405060708, predecessor),
        frame(b, ends[3], ends[3], records[3:4]),
        frame(b, ends[4], ends[4], [], seal=True),
    ]
    out = [
        "# The two segments of the short life in src/writer/tests.rs, made by short_life.py. A line is bytes in hex; a",
        "# number before it says how often they come.",
        "",
    ]
    for name, parts in ((0, first), (ends[3], second)):
        parts.append(bytes(SEGMENT_BYTES - len(b"".join(parts))))
        out.append("%020d.wal" % name)
        for part in parts:
            out.extend(lines(part))
    pathlib.Path(__file__).with_name("short-life.hex").write_text("\n".join(out) + "\n")


main()

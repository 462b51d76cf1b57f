#!/usr/bin/env python3
"""Writes the golden vectors of storage keys, fingerprints, derived keys and envelopes, from the documented layouts alone.

    python3 http/testdata/vectors.py        # in the repository's directory
"""

import hashlib
import pathlib
import struct

HERE = pathlib.Path(__file__).parent


def fields(*parts):
    """SHA-256 over fields behind their lengths; None is a field that is not there."""
    joined = b"".join(
        b"\xff" * 8 if part is None else struct.pack(">Q", len(part)) + part for part in parts
    )
    return hashlib.sha256(joined).hexdigest()


def envelope(status, headers, body):
    parts = [struct.pack(">BHB", 1, status, len(headers))]
    parts += [struct.pack(">BH", number, len(value)) + value for number, value in headers]
    parts += [struct.pack(">I", len(body)), body]
    return b"".join(parts)


def write(name, text):
    (HERE / name).write_text(text + "\n")


ADA = (b"Bearer", b"https://issuer.example", b"ada")
NOBODY = (b"", b"", b"x")
ACUTE = "\u00e9".encode()

write("storage-key-full.txt", "idem:http:v1:{%s}" % fields(b"shop", *ADA, b"acme", b"8e03978e"))
write("storage-key-bytes.txt", "idem:http:v1:{%s}" % fields(b"n", *NOBODY, ACUTE, b'"\\'))

write(
    "fingerprint-full.hex",
    fields(b"POST", b"/payments", b"dry=1", b"application/json", b'{"amount":5}', b"shop", *ADA, b"acme"),
)
write("fingerprint-bare.hex", fields(b"POST", b"/payments", None, None, b"", b"shop", *ADA, b"acme"))
write(
    "fingerprint-bytes.hex",
    fields(b"DELETE", b"/a%2Fb/", b"", b"", b"\x00\xff\r\n", b"n", *NOBODY, ACUTE),
)

write("derived-key.txt", fields(b"idem:http:v1:{00}", b"ff", b"bank: charge"))

write(
    "envelope-full.hex",
    envelope(
        201,
        [
            (1, b"application/json"),
            (2, b"en"),
            (2, b"de"),
            (3, b'"1"'),
            (4, b"Wed, 21 Oct 2015 07:28:00 GMT"),
        ],
        b'{"a":1}',
    ).hex(),
)
write("envelope-empty.hex", envelope(204, [], b"").hex())
write("envelope-bytes.hex", envelope(599, [(1, b"text/csv; charset=iso-8859-1")], b"\x00\xff\r\n").hex())

"""Runs something once with redis-py: run_once.py HOST PORT KEY FINGERPRINT RESULT.

Prints `executed`, `replayed`, `pending` or `conflict`, and the result when there is one.
"""

import secrets
import sys

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry


def connect(host, port):
    # redis-py repeats a command by itself when its answer was lost. Here that would turn an `acquired` that nobody saw
    # into a `pending`: the error is better, it says what happened.
    return redis.Redis(host, port, retry=Retry(NoBackoff(), 0))


def run_once(server, key, fingerprint, work, ttl_ms=86_400_000):
    """`(outcome, result)`. An exception of `work` leaves the record pending until its deadline."""
    owner = secrets.token_hex(16)  # names this attempt; never used again
    # Bytes also where the connection decodes answers: results are binary.
    state, *stored = server.execute_command("IDEM", key, "BEGIN", fingerprint, owner, ttl_ms, NEVER_DECODE=True)
    if state == b"completed":
        return "replayed", stored[0]
    if state != b"acquired":
        return state.decode(), None  # pending or conflict: nothing is done
    result = work()
    # An exception here means that the result may be stored. No ABORT: a later BEGIN tells.
    if server.execute_command("IDEM", key, "COMPLETE", fingerprint, owner, result) == 0:
        print("not stored: the record had ended", file=sys.stderr)
    return "executed", result


if __name__ == "__main__":
    host, port, key, fingerprint, result = sys.argv[1:]
    outcome, value = run_once(connect(host, int(port)), key, fingerprint, lambda: result.encode())
    print(outcome if value is None else f"{outcome} {value.decode()}")

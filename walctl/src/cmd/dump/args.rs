//! The flags of `walctl dump`.

use std::path::PathBuf;

use idem_protocol::wal::Opcode;
use idem_protocol::{Lsn, UnixMs};

use crate::parse::{self, Bytes};

const HELP: &str = "\
Columns: lsn, time (UTC), kind, database, key, then what the kind has: state, deadline, owner, fingerprint, \
sizes. A Transaction is one line per record in it.

Bytes that are no printable UTF-8 are written \\xNN, a backslash is doubled; --key and --prefix take the same form, and \
bytes as they are. For people, so are characters that are not seen or that change the order of writing; JSON has these as \
they are.

Examples:
  walctl dump /var/lib/idemd --key order:42 --values
  walctl dump /var/lib/idemd --prefix 'order:' --opcode 53 --json
  walctl dump /var/lib/idemd --from-time 2026-01-31T12:00:00+01:00 --values
  walctl dump /var/lib/idemd --from-lsn 4096 --to-lsn 8192 --frames
  walctl dump /var/lib/idemd --follow --json | jq 'select(.state == \"completed\")'
  walctl dump /var/lib/idemd --past-damage --json >left.jsonl 2>skipped.txt
  walctl dump /var/lib/idemd/wal/cut-00000000000000004180-1767225600000.bin

Exit codes:
  0  read to the end of the log or to the limit asked for; also when the pipe was closed, and when --follow was \
stopped by Ctrl-C or a plain kill
  1  wrong usage, an error, no log, or one that ends in something that is no end or has a part missing
  4  with --past-damage: something was skipped
  9  with --past-damage: something was skipped that cannot be read

A running server appends meanwhile, and removes what it no longer needs: new segments are read too, and what went \
before it was read is a note on stderr.

--follow prints what is written at once, synced or not, each line as it comes; it stays through rotations and \
restarts of the server. A start after a loss of power, going back to another history or a repair may take back what \
was printed: stderr says from which lsn on, and what is there now is printed from that lsn on. A reader of the lines \
sees that the lsn does not rise. Another directory that is put in the place of DIR, or another wal in it, is gone on with: \
stderr says whose log it is when it is another node's, and from which lsn on it is read. Where nothing is for a while, it is \
waited for, and one line says so.

With --follow and --to-lsn it ends when the log has reached that position; at once when it is there already. With --to-time it ends at \
the first record of a later time; where nothing is written, when that time is over by this machine's clock: by a second \
when the log is sealed (a server does that 100 ms after the last record), its server has written nothing yet, or none has it, otherwise (appendfsync no) by \
ten seconds in which nothing came.

With damage, what is good before it is printed, and stderr has file, offset and lsn; walctl verify says what it is. \
With --past-damage what is good after it is printed, too: the good records of a group whose header is good, otherwise \
from the next group on. What the system does not hand over is passed in the same way, up to the next group that can be read. Each range that is skipped is a line on stderr with file, offset, lsn, and the checksum that was \
expected and the one that was found. No server reads a log like that: what is printed need not be all that happened.

Of a file wal/cut-*.bin, the records that are whole in it are printed, ranges that are none are lines on stderr, and last how \
many bytes belong to none; the exit code is 0. The segment that it was cut off has to be beside it, or in the wal beside it: \
its salt tells groups from other bytes. What is in it is no part of the log any more.";

/// See `--help`.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// The data directory; or a file wal/cut-*.bin in one, which a start has cut off the end of the log.
    #[arg(value_name = "DIR")]
    pub(crate) dir: PathBuf,

    /// Only records of this key.
    #[arg(long, value_name = "KEY", value_parser = parse::bytes(), allow_hyphen_values = true)]
    pub(crate) key: Option<Bytes>,

    /// Only records of keys that begin like this.
    #[arg(long, value_name = "PREFIX", value_parser = parse::bytes(), allow_hyphen_values = true)]
    pub(crate) prefix: Option<Bytes>,

    /// Only this kind of record: its number, or its name.
    #[arg(long, value_name = "N", value_parser = parse::opcode)]
    pub(crate) opcode: Option<Opcode>,

    /// Only records that change this database; FlushAll changes each.
    #[arg(long, value_name = "N")]
    pub(crate) db: Option<u8>,

    /// Only records at or after this position.
    #[arg(long, value_name = "LSN", value_parser = parse::lsn)]
    pub(crate) from_lsn: Option<Lsn>,

    /// Only records that begin before this position.
    #[arg(long, value_name = "LSN", value_parser = parse::lsn)]
    pub(crate) to_lsn: Option<Lsn>,

    /// Only records of this time or later: RFC 3339 with offset, or Unix milliseconds.
    #[arg(long, value_name = "TIME", value_parser = parse::time)]
    pub(crate) from_time: Option<UnixMs>,

    /// Only records of this time or earlier.
    #[arg(long, value_name = "TIME", value_parser = parse::time)]
    pub(crate) to_time: Option<UnixMs>,

    /// Also the values: strings, fields of hashes, stored results.
    #[arg(long)]
    pub(crate) values: bool,

    /// Also a line for each group commit, and the file and offset of each record.
    #[arg(long)]
    pub(crate) frames: bool,

    /// At the end of the log, wait for more.
    #[arg(long)]
    pub(crate) follow: bool,

    /// Go on behind what is damaged.
    #[arg(long)]
    pub(crate) past_damage: bool,

    /// JSON Lines.
    #[arg(long)]
    pub(crate) json: bool,
}

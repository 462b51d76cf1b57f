//! What fuzzing starts from.
//!
//! Seeds are made from what the repository has anyway: the golden vectors of every format and the contract's cases. So a
//! new format or command has seeds the day it has vectors or cases. Beside them are the inputs that the fuzzer found worth
//! keeping, as files in `fuzz/corpus/TARGET/`.

use std::path::{Path, PathBuf};

use super::Target;
use super::wal_records::FORMATS;
use crate::contract::{self, CaseFile, Step};
use crate::process::client::encode_command;

/// The files of golden vectors, each with the number by which `wal_records` knows its format.
const VECTORS: [(&str, u8); 7] = [
    ("idem-record", 0),
    ("limit-record", 1),
    ("record", 2),
    ("frame", 3),
    ("segment-header", 4),
    ("control", 7),
    ("link", 8),
];

/// Requests at the bounds of the small limits that the decoder's target has.
const REQUESTS: [&[u8]; 12] = [
    b"*1\r\n$4\r\nPING\r\n",
    b"*2\r\n$3\r\nGET\r\n$0\r\n\r\n*0\r\n*-1\r\nPING\r\n",
    b"PING\r\n\r\nECHO \"a \\x41\\n\" 'b \\' c'\n",
    b"*16\r\n$1\r\na\r\n",
    b"*17\r\n",
    b"*1\r\n$64\r\n0123456789012345678901234567890123456789012345678901234567890123\r\n",
    b"*1\r\n$65\r\n",
    b"*1\r\n$-1\r\n",
    b"*1\r\n+PING\r\n",
    b"*1\r\n$4\r\nPINGxx",
    b"ECHO \"open\r\n",
    b"*00000000000000000000000000000000000000000000000001\r\n",
];

/// Replies of every type, whole and nested.
const REPLIES: [&[u8]; 12] = [
    b"+OK\r\n-ERR no\r\n:42\r\n$3\r\nabc\r\n$-1\r\n*-1\r\n_\r\n",
    b"*2\r\n$8\r\nacquired\r\n:1\r\n",
    b"%1\r\n+state\r\n$7\r\npending\r\n",
    b"~2\r\n:1\r\n:2\r\n>2\r\n+message\r\n$0\r\n\r\n",
    b",1.5\r\n,inf\r\n,nan\r\n,-1e300\r\n#t\r\n#f\r\n",
    b"(12345678901234567890123456789\r\n=7\r\ntxt:abc\r\n!5\r\nERR x\r\n",
    b"|1\r\n+ttl\r\n:1\r\n$1\r\nx\r\n",
    b"*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n",
    b"*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n",
    b"*4294967296\r\n",
    b"$-2\r\n",
    b"*?\r\n",
];

/// Patterns with texts, as the target wants them: the pattern's length first.
const PATTERNS: [&[u8]; 8] = [
    b"\x04h*llhello",
    b"\x05h?llohello",
    b"\x08h[^e]llohallo",
    b"\x06[a-c]*cab",
    b"\x05\\*\\?a*?a",
    b"\x06*a*a*aaaaaaaab",
    b"\x04[]a]]a]",
    b"\x14-9223372036854775808",
];

/// All seeds of a target, with names for files.
pub fn seeds(target: &Target) -> Vec<(String, Vec<u8>)> {
    let uncut = |bytes: &[u8]| [&[0], bytes].concat();
    match target.name {
        "resp_command" => numbered("request", &REQUESTS, |bytes| [&[2, 0, 5], bytes].concat()),
        "resp_value" => numbered("reply", &REPLIES, |bytes| [&[2, 0, 5], bytes].concat()),
        "glob" => numbered("pattern", &PATTERNS, <[u8]>::to_vec),
        "wal_records" => records(),
        "command" => cases()
            .into_iter()
            .map(|(name, requests)| (name, uncut(&requests)))
            .collect(),
        other => panic!("the target {other} has no seeds"),
    }
}

/// The folder of what the fuzzer found.
pub fn directory(target: &Target) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../fuzz/corpus")
        .join(target.name)
}

/// The inputs in [`directory`], with their file names, in the order of the names.
pub fn kept(target: &Target) -> Vec<(String, Vec<u8>)> {
    let directory = directory(target);
    let mut all: Vec<(String, Vec<u8>)> = std::fs::read_dir(&directory)
        .unwrap_or_else(|error| panic!("{}: {error}", directory.display()))
        .map(|entry| {
            let entry = entry.expect("a directory of the repository is readable");
            let bytes = std::fs::read(entry.path()).expect("a file of the repository is readable");
            (entry.file_name().to_string_lossy().into_owned(), bytes)
        })
        .collect();
    all.sort();
    all
}

fn numbered(name: &str, all: &[&[u8]], make: impl Fn(&[u8]) -> Vec<u8>) -> Vec<(String, Vec<u8>)> {
    let named = all.iter().enumerate();
    named
        .map(|(index, bytes)| (format!("{name}-{index}"), make(bytes)))
        .collect()
}

/// The golden vectors; a snapshot's parts are formats of their own.
fn records() -> Vec<(String, Vec<u8>)> {
    let mut all = Vec::new();
    for (file, format) in VECTORS {
        assert!(format < FORMATS);
        for (name, bytes) in vectors(file) {
            all.push((format!("{file}-{name}"), [&[format], bytes.as_slice()].concat()));
        }
    }
    for (name, bytes) in vectors("snapshot") {
        let (header, rest) = bytes.split_at(44);
        all.push((format!("snapshot-header-{name}"), [&[5], header].concat()));
        // The trailer's mark is no length that an item has.
        let mark = rest.windows(4).rposition(|window| window == [0xff; 4]);
        if let Some(trailer) = mark.and_then(|mark| rest.get(mark + 8..rest.len() - 4)) {
            all.push((format!("snapshot-trailer-{name}"), [&[6], trailer].concat()));
        }
    }
    for (index, text) in [
        "00000000000000012345.wal",
        "00000000000000000000.snap",
        "k\\x00\\\\\\xff",
    ]
    .iter()
    .enumerate()
    {
        all.push((format!("text-{index}"), [&[9], text.as_bytes()].concat()));
    }
    all
}

/// The commands of each case, as a client would send them.
fn cases() -> Vec<(String, Vec<u8>)> {
    let mut all = Vec::new();
    for CaseFile { name, cases } in contract::files().into_iter().chain(contract::command_files()) {
        let name = name.trim_end_matches(".case");
        for case in cases {
            let mut requests = Vec::new();
            for (_, step) in &case.steps {
                if let Step::Send { args, .. } = step {
                    let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
                    requests.extend(encode_command(&args));
                }
            }
            all.push((format!("{name}-{}", case.line), requests));
        }
    }
    all
}

/// The vectors of a golden file: `[name] N bytes`, then lines `offset | bytes | comment`. That the file is right is tested
/// in `protocol`; here a line that is not understood is left out.
fn vectors(file: &str) -> Vec<(String, Vec<u8>)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../protocol/testdata")
        .join(format!("{file}.hex"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut all: Vec<(String, Vec<u8>)> = Vec::new();
    for line in text.lines() {
        if let Some((name, _)) = line.strip_prefix('[').and_then(|line| line.split_once(']')) {
            all.push((
                name.replace(|c: char| !c.is_ascii_alphanumeric(), "-"),
                Vec::new(),
            ));
        } else if let (Some(pairs), Some((_, bytes))) = (line.split(" | ").nth(1), all.last_mut()) {
            match pairs.strip_prefix("00 * ") {
                Some(count) => bytes.resize(bytes.len() + count.parse().unwrap_or(0), 0),
                None => bytes.extend(
                    pairs
                        .split(' ')
                        .filter_map(|pair| u8::from_str_radix(pair, 16).ok()),
                ),
            }
        }
    }
    all
}

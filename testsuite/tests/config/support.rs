//! Asking for options, setting them, and waiting for what comes of it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use idem_protocol::resp::value::Value;
use idem_testsuite::process::{Client, IdemdOptions};
use idem_testsuite::testdir::TestDir;

/// How long an effect may take to show itself.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) fn text(value: &Value) -> String {
    match value {
        Value::Bulk(bytes) => String::from_utf8(bytes.clone()).expect("options are text"),
        Value::Simple(text) | Value::Error(text) => text.clone(),
        other => format!("{other:?}"),
    }
}

/// CONFIG GET.
pub(crate) fn get(client: &mut Client, pattern: &str) -> BTreeMap<String, String> {
    let Value::Array(items) = client.ask(&format!("CONFIG GET {pattern}")) else {
        panic!("CONFIG GET answers an array")
    };
    items
        .chunks(2)
        .map(|pair| (text(&pair[0]), text(&pair[1])))
        .collect()
}

/// CONFIG SET with arguments that may be empty or hold blanks; the reply's text.
pub(crate) fn set(client: &mut Client, pairs: &[(&str, &str)]) -> String {
    let mut words: Vec<&[u8]> = vec![b"CONFIG", b"SET"];
    for (name, value) in pairs {
        words.extend([name.as_bytes(), value.as_bytes()]);
    }
    text(&client.call(&words).expect("CONFIG SET is answered"))
}

pub(crate) fn must_set(client: &mut Client, pairs: &[(&str, &str)]) {
    assert_eq!(set(client, pairs), "OK", "{pairs:?}");
}

/// A number of INFO.
pub(crate) fn info(client: &mut Client, field: &str) -> u64 {
    let all = text(&client.ask("INFO everything"));
    let mark = format!("{field}:");
    let value = all.lines().find_map(|line| line.strip_prefix(mark.as_str()));
    let value = value.unwrap_or_else(|| panic!("no {field} in {all}"));
    value.parse().unwrap_or_else(|_| panic!("{field} is {value}"))
}

/// Looks again and again until it is so: for effects of other threads, which no reply tells of.
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < end, "not within {PATIENCE:?}: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

pub(crate) fn small() -> IdemdOptions {
    IdemdOptions::default().option("wal-segment-bytes", "1mb")
}

/// A configuration file and the options of a start with it.
pub(crate) fn with_file(dir: &TestDir, contents: &str) -> (PathBuf, IdemdOptions) {
    let path = dir.path().join("idemd.toml");
    std::fs::write(&path, contents).expect("the directory is ours");
    let options = IdemdOptions::default().option("config", &path);
    (path, options)
}

pub(crate) fn read(path: &Path) -> String {
    std::fs::read_to_string(path).expect("the file is there")
}

pub(crate) const FILE: &str = "\
# idemd of the orders\n\
\n\
timeout    =  60   # a minute\n\
maxmemory = \"1gb\"\n\
# the log\n\
snapshot-wal-bytes = '512kb' # small\n\
'maxclients' = 50\n\
# the end";

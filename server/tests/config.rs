//! What a configuration gives, and what is refused and in which words: one table through one function.

#![allow(
    clippy::unwrap_used,
    reason = "a helper of tests is a test: what is not so fails it"
)]

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use idem_server::config::{self, Flags, FsyncPolicy, LogFormat, LogLevel, Options, file};

/// Loads with `file` (when there is one) and `flags`; the error's text when it is refused.
fn load(file: Option<&str>, flags: &[&str]) -> Result<Options, String> {
    let mut arguments = vec!["idemd".to_owned()];
    let mut kept = None;
    if let Some(text) = file {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        arguments.extend(["--config".to_owned(), file.path().display().to_string()]);
        kept = Some(file);
    }
    arguments.extend(flags.iter().map(|flag| (*flag).to_owned()));
    let flags = Flags::parse(arguments).map_err(|error| error.to_string())?;
    let options = config::load(&flags).map_err(|error| error.to_string());
    drop(kept);
    options
}

fn check(file: Option<&str>, flags: &[&str], expected: impl FnOnce(&mut Options)) {
    let mut options = Options::default();
    expected(&mut options);
    assert_eq!(load(file, flags), Ok(options), "{file:?} {flags:?}");
}

fn check_refused(file: Option<&str>, flags: &[&str], words: &[&str]) {
    let error = load(file, flags).expect_err(&format!("accepted: {file:?} {flags:?}"));
    for word in words {
        assert!(
            error.contains(word),
            "{file:?} {flags:?}: no {word:?} in {error:?}"
        );
    }
}

#[test]
fn flags() {
    check(None, &[], |_| {});
    check(None, &["--port", "0"], |o| o.port = 0);
    check(None, &["--port=65535"], |o| o.port = 65535);
    check(None, &["--bind", "::1"], |o| o.bind = "::1".parse().unwrap());
    check(None, &["--bind", "127.0.0.2"], |o| {
        o.bind = "127.0.0.2".parse().unwrap()
    });
    check(None, &["--bind", "0.0.0.0", "--protected-mode", "no"], |o| {
        o.bind = "0.0.0.0".parse().unwrap();
        o.protected_mode = false;
    });
    check(None, &["--dir", "/a b"], |o| o.dir = PathBuf::from("/a b"));
    check(None, &["--appendfsync", "everysec"], |o| {
        o.appendfsync = FsyncPolicy::Everysec
    });
    check(None, &["--appendfsync", "no"], |o| {
        o.appendfsync = FsyncPolicy::No
    });
    check(None, &["--databases", "256"], |o| o.databases = 256);
    check(None, &["--proto-max-bulk-len", "1kb"], |o| {
        o.proto_max_bulk_len = 1024
    });
    check(
        None,
        &[
            "--proto-max-bulk-len",
            "256mb",
            "--client-query-buffer-limit",
            "256mb",
        ],
        |o| {
            o.proto_max_bulk_len = 256 << 20;
            o.client_query_buffer_limit = 256 << 20;
        },
    );
    check(None, &["--maxclients", "1"], |o| o.maxclients = 1);
    check(None, &["--timeout", "300"], |o| {
        o.timeout = Duration::from_secs(300)
    });
    check(None, &["--client-output-buffer-limit", "1mb"], |o| {
        o.client_output_buffer_limit = 1 << 20
    });
    check(None, &["--client-buffers-total", "2g"], |o| {
        o.client_buffers_total = 2_000_000_000
    });
    check(None, &["--wal-segment-bytes", "1mb"], |o| {
        o.wal_segment_bytes = 1 << 20
    });
    check(None, &["--wal-keep-bytes", "0"], |o| o.wal_keep_bytes = 0);
    check(None, &["--snapshot-wal-bytes", "4kb"], |o| {
        o.snapshot_wal_bytes = 4096
    });
    check(None, &["--log-level", "debug", "--log-format", "json"], |o| {
        o.log_level = LogLevel::Debug;
        o.log_format = LogFormat::Json;
    });
    check(None, &["--slowlog-log-slower-than", "-1"], |o| {
        o.slowlog_usec = None
    });
    check(
        None,
        &["--slowlog-log-slower-than=0", "--slowlog-max-len", "0"],
        |o| {
            o.slowlog_usec = Some(0);
            o.slowlog_max_len = 0;
        },
    );
    check(Some("slowlog-log-slower-than = -1"), &[], |o| {
        o.slowlog_usec = None
    });
    check(Some("latency-monitor-threshold = 100"), &[], |o| {
        o.latency_monitor_ms = 100
    });
    check(None, &["--strict-recovery"], |o| o.strict_recovery = true);
    check(None, &["--strict-recovery", "no"], |_| {});
    check(None, &["--strict-recovery", "--port", "1"], |o| {
        o.strict_recovery = true;
        o.port = 1;
    });
}

#[test]
fn file_and_flags() {
    check(Some(""), &[], |_| {});
    check(Some("# nothing\n"), &[], |_| {});
    check(
        Some("port = 7000\ndir = \"x\"\nappendfsync = \"everysec\"\n"),
        &[],
        |o| {
            o.port = 7000;
            o.dir = PathBuf::from("x");
            o.appendfsync = FsyncPolicy::Everysec;
        },
    );
    check(Some("port = 7000\n"), &["--port", "7001"], |o| o.port = 7001);
    check(Some("strict-recovery = true\nprotected-mode = false"), &[], |o| {
        o.strict_recovery = true;
        o.protected_mode = false;
    });
    check(
        Some("wal-segment-bytes = \"2mb\"\nsnapshot-wal-bytes = 8192\n"),
        &[],
        |o| {
            o.wal_segment_bytes = 2 << 20;
            o.snapshot_wal_bytes = 8192;
        },
    );
    // Only what holds in the end is judged: the flag mends what the file alone would contradict.
    check(
        Some("proto-max-bulk-len = \"64mb\"\n"),
        &["--client-query-buffer-limit", "64mb"],
        |o| {
            o.proto_max_bulk_len = 64 << 20;
            o.client_query_buffer_limit = 64 << 20;
        },
    );
}

#[test]
fn refused_flags() {
    check_refused(None, &["--prot", "1"], &["--prot"]);
    check_refused(None, &["7000"], &["7000"]);
    check_refused(None, &["--port"], &["--port"]);
    check_refused(None, &["--port", "1", "--port", "2"], &["--port"]);
    for value in ["", "65536", "-1", "+1", "x", "1.0", " 1", "99999999999999999999"] {
        check_refused(None, &[&format!("--port={value}")], &["--port", "0 to 65535"]);
    }
    check_refused(None, &["--bind", "localhost"], &["--bind", "IP address"]);
    check_refused(None, &["--dir", ""], &["--dir"]);
    check_refused(
        None,
        &["--appendfsync", "ALWAYS"],
        &["--appendfsync", "always, everysec, no"],
    );
    check_refused(None, &["--databases", "0"], &["--databases", "1 to 256"]);
    check_refused(None, &["--databases", "257"], &["--databases", "1 to 256"]);
    check_refused(
        None,
        &["--proto-max-bulk-len", "257mb"],
        &["--proto-max-bulk-len", "256mb"],
    );
    check_refused(
        None,
        &["--proto-max-bulk-len", "1"],
        &["--proto-max-bulk-len", "1kb"],
    );
    check_refused(None, &["--maxclients", "0"], &["--maxclients"]);
    check_refused(None, &["--timeout", "-1"], &["--timeout"]);
    check_refused(
        None,
        &["--client-output-buffer-limit", "0"],
        &["--client-output-buffer-limit"],
    );
    check_refused(
        None,
        &["--client-query-buffer-limit", "0"],
        &["--client-query-buffer-limit"],
    );
    check_refused(
        None,
        &["--client-buffers-total", "0"],
        &["--client-buffers-total"],
    );
    check_refused(
        None,
        &["--wal-segment-bytes", "1023kb"],
        &["--wal-segment-bytes", "1mb"],
    );
    check_refused(
        None,
        &["--wal-segment-bytes", "64 mb"],
        &["--wal-segment-bytes", "size"],
    );
    check_refused(None, &["--log-level", "loud"], &["--log-level"]);
    check_refused(
        None,
        &["--slowlog-log-slower-than", "-2"],
        &["--slowlog-log-slower-than", "nor -1"],
    );
    check_refused(
        None,
        &["--slowlog-max-len", "100001"],
        &["--slowlog-max-len", "0 to 100000"],
    );
    check_refused(None, &["--log-format", "xml"], &["--log-format"]);
    check_refused(
        None,
        &["--strict-recovery", "maybe"],
        &["--strict-recovery", "yes nor no"],
    );
    check_refused(
        None,
        &["--config", "/no/such/file.toml"],
        &["--config", "/no/such/file.toml"],
    );
}

#[test]
fn refused_contradictions() {
    check_refused(None, &["--bind", "0.0.0.0"], &["bind", "--protected-mode no"]);
    check_refused(None, &["--bind", "::"], &["bind", "--protected-mode no"]);
    check_refused(
        None,
        &["--bind", "192.0.2.1", "--protected-mode", "yes"],
        &["bind"],
    );
    check_refused(
        None,
        &["--proto-max-bulk-len", "64mb"],
        &["proto-max-bulk-len (64mb)", "client-query-buffer-limit (32mb)"],
    );
    check_refused(
        None,
        &["--client-query-buffer-limit", "1mb"],
        &["proto-max-bulk-len", "client-query-buffer-limit"],
    );
}

#[test]
fn options_of_later_versions_are_refused_in_words() {
    for (name, _) in config::absent::ABSENT {
        check_refused(
            None,
            &[&format!("--{name}"), "1"],
            &[name, "this version does not have"],
        );
        check_refused(
            None,
            &[&format!("--{name}")],
            &[name, "this version does not have"],
        );
        check_refused(
            None,
            &[&format!("--{name}=x y")],
            &[name, "this version does not have"],
        );
        check_refused(
            Some(&format!("{name} = 1\n")),
            &[],
            &[name, "this version does not have", ":1:"],
        );
    }
    check_refused(
        None,
        &["--replicaof", "127.0.0.1", "6379"],
        &["replicaof", "this version does not have"],
    );
}

#[test]
fn refused_files() {
    check_refused(Some("prot = 1\n"), &[], &["prot", "unknown option", ":1:"]);
    check_refused(
        Some("port = 1\n\n# c\nPort = 1\n"),
        &[],
        &["Port", "unknown option", ":4:"],
    );
    check_refused(Some("config = \"x\"\n"), &[], &["config", "unknown option"]);
    check_refused(Some("port = 1\nport = 2\n"), &[], &["port"]);
    check_refused(Some("port = 1.5\n"), &[], &["port", "whole number"]);
    check_refused(Some("port = -1\n"), &[], &["port", "0 to 65535"]);
    check_refused(Some("port = [1]\n"), &[], &["port"]);
    check_refused(Some("[server]\nport = 1\n"), &[], &["server", "unknown option"]);
    check_refused(Some("[port]\nx = 1\n"), &[], &["port"]);
    check_refused(Some("port 1\n"), &[], &["TOML"]);
    check_refused(
        Some("wal-segment-bytes = \"1kb\"\n"),
        &[],
        &["wal-segment-bytes", "1mb"],
    );
}

#[test]
fn a_refused_file_says_where() {
    let mut options = Options::default();
    let error = file::apply_text("f.toml", "port = 1\ntimeout = \"x\"\n", &mut options)
        .unwrap_err()
        .to_string();
    assert!(error.starts_with("f.toml:2: timeout: "), "{error}");
}

#[test]
fn help_shows_every_option_with_its_default() {
    let help = config::cli::command().render_long_help().to_string();
    for row in config::table::OPTIONS {
        assert!(help.contains(&format!("--{}", row.name)), "{}", row.name);
    }
    let flat = help.split_whitespace().collect::<Vec<_>>().join(" ");
    for row in config::table::OPTIONS {
        assert!(
            flat.contains(&format!("[default: {}]", row.default)),
            "{}",
            row.name
        );
    }
    for (name, _) in config::absent::ABSENT {
        assert!(!help.contains(&format!("--{name} ")), "{name} is offered");
    }
}

#[test]
fn the_memory_limit() {
    use idem_engine::{EvictionPolicy, MemoryLimit};

    check(None, &["--maxmemory", "64mb"], |o| o.maxmemory = 64 << 20);
    check(Some("maxmemory = \"1gb\"\nidem-evictable = true"), &[], |o| {
        o.maxmemory = 1 << 30;
        o.idem_evictable = true;
    });
    for (name, policy) in EvictionPolicy::ALL {
        check(None, &["--maxmemory-policy", name], |o| {
            o.maxmemory_policy = policy
        });
    }
    check(None, &["--maxmemory-samples", "10"], |o| o.maxmemory_samples = 10);
    check_refused(None, &["--maxmemory", "-1"], &["maxmemory", "is not a size"]);
    check_refused(
        None,
        &["--maxmemory-policy", "allkeys-lfu"],
        &["maxmemory-policy", "noeviction, volatile-ttl, allkeys-lru"],
    );
    check_refused(
        None,
        &["--maxmemory-samples", "0"],
        &["maxmemory-samples", "from 1 to 64"],
    );

    let flags = [
        "--maxmemory",
        "1mb",
        "--maxmemory-policy",
        "volatile-ttl",
        "--idem-evictable",
    ];
    let options = load(None, &flags).unwrap();
    assert_eq!(
        options.memory_limit(),
        MemoryLimit {
            bytes: 1 << 20,
            policy: EvictionPolicy::VolatileTtl,
            samples: 5,
            idem_evictable: true,
        }
    );
    // Said at the start, and only where it has an effect.
    let warned = |flags: &[&str], words: &str| {
        let warnings = config::warnings(&load(None, flags).unwrap());
        warnings.iter().any(|warning| warning.contains(words))
    };
    let can_go = "records of IDEM are evicted";
    assert!(warned(&flags, can_go));
    assert!(!warned(&flags[..4], can_go));
    assert!(!warned(&flags[2..], can_go));
    assert!(!warned(&["--maxmemory", "1mb", "--idem-evictable"], can_go));

    // Without a limit there is nothing that these could do.
    let (policy, evictable) = (
        "maxmemory-policy has no effect without maxmemory",
        "idem-evictable has no effect without maxmemory",
    );
    for (flags, expected) in [
        (&flags[2..], [true, true]),
        (&flags[2..4], [true, false]),
        (&flags[4..], [false, true]),
        (&flags[..], [false, false]),
        (&["--maxmemory-policy", "noeviction"], [false, false]),
    ] {
        assert_eq!(
            [policy, evictable].map(|words| warned(flags, words)),
            expected,
            "{flags:?}"
        );
    }
}

//! Recovery as the server sees it: records into a node, a verdict into words or a refusal.
//!
//! The judge hands records over while it reads; they go through the same `apply` as those of a running node, and count only
//! when the verdict does.

use idem_engine::{Node, NodeConfig};
use idem_protocol::lsn::Lsn;
use idem_protocol::wal::{RawRecord, Record};
use idem_wal::recovery::{self, Finding, FindingKind, JudgeOptions, Judgement, Place, Sink, Verdict};
use idem_wal::storage::DiskStorage;

use super::{Settings, StartError, directory, fill_random};
use crate::config::Options;
use crate::exit::Exit;
use crate::shutdown::ending_on_signal;

/// Log records between two steps of giving memory back.
const RECLAIM_EVERY: u32 = 256;

/// Rebuilds the state while the judge reads. Provisional until the verdict is there.
struct Rebuild {
    node: Node,
    /// Databases that the records need.
    databases_needed: u16,
    /// Log records since memory was last given back.
    since_reclaim: u32,
}

impl Rebuild {
    fn take(&mut self, end: Lsn, raw: &RawRecord<'_>, record: &Record<'_>) {
        self.databases_needed = self.databases_needed.max(databases_of(raw.db, record));
        self.node.recover(end, raw.time, raw.db, record);
    }
}

/// How many databases there have to be for this record.
fn databases_of(db: u8, record: &Record<'_>) -> u16 {
    match record {
        Record::Transaction { records } => records
            .iter()
            .map(|(db, record)| databases_of(db, &record))
            .max()
            .unwrap_or(0),
        _ => u16::from(db) + 1,
    }
}

impl Sink for Rebuild {
    fn reset(&mut self) {
        self.node.reset();
        self.databases_needed = 0;
        self.since_reclaim = 0;
    }

    fn snapshot_item(&mut self, raw: &RawRecord<'_>, item: &Record<'_>) {
        // An item stands at the lsn at which its partition was written; it takes up no bytes of the log.
        self.take(raw.lsn, raw, item);
    }

    fn record(&mut self, _: Place<'_>, raw: &RawRecord<'_>, record: &Record<'_>) {
        self.take(raw.end(), raw, record);
        // A long log of short-lived keys must not need the memory of all of them at once.
        self.since_reclaim += 1;
        if self.since_reclaim == RECLAIM_EVERY {
            self.since_reclaim = 0;
            self.node.reclaim_recovered(raw.time);
        }
    }
}

pub(super) fn recover(
    storage: &DiskStorage,
    options: &Options,
    settings: &Settings,
) -> Result<(Node, Judgement), StartError> {
    let mut seed_bytes = [[0; 8]; 4];
    for bytes in &mut seed_bytes {
        fill_random(bytes)?;
    }
    #[cfg(not(feature = "sabotage"))]
    let _ = settings;
    let config = NodeConfig {
        databases: options.databases,
        hash_seed: seed_bytes.map(u64::from_le_bytes),
        policy: options.appendfsync.into(),
        bulk_bytes_max: options.proto_max_bulk_len,
        #[cfg(feature = "sabotage")]
        sabotage: settings.sabotage.node,
    };
    let mut rebuild = Rebuild {
        node: Node::new(config),
        databases_needed: 0,
        since_reclaim: 0,
    };
    let judge = JudgeOptions {
        retain_tail: true,
        ..JudgeOptions::default()
    };
    // Up to the verdict nothing is changed, so that there is nothing to finish when somebody wants the server to stop.
    let judgement = ending_on_signal(|| {
        tracing::info!("reading the log in {}", options.dir.display());
        recovery::judge(storage, &judge, &mut rebuild)
    })
    .map_err(|error| StartError::failure(format!("cannot take over signals: {error}")))?;
    check_verdict(&judgement, options)?;
    if rebuild.databases_needed > options.databases {
        return Err(StartError::usage(format!(
            "databases: {} are configured, but the log in {} has records for {}; start with --databases {2} or more",
            options.databases,
            options.dir.display(),
            rebuild.databases_needed,
        )));
    }
    Ok((rebuild.node, judgement))
}

/// Logs what was found, and refuses what cannot be started with.
fn check_verdict(judgement: &Judgement, options: &Options) -> Result<(), StartError> {
    // Beside whatever verdict, a refusal too: a damaged copy that is not needed today is still one copy fewer.
    for finding in judgement
        .findings
        .iter()
        .filter(|finding| finding.kind == FindingKind::Beside)
    {
        tracing::warn!("{}", describe(finding));
    }
    let refused_by_option = judgement.verdict == Verdict::UnprovenTail && options.strict_recovery;
    if !judgement.verdict.starts() || refused_by_option {
        return Err(StartError {
            exit: Exit::Refused,
            message: refusal(judgement, options, refused_by_option),
        });
    }
    let (letter, word, lsn) = (judgement.letter(), judgement.verdict.word(), judgement.end_lsn);
    match judgement.verdict {
        Verdict::UnprovenTail | Verdict::TornTail => {
            for finding in judgement.reasons() {
                tracing::warn!("{}", describe(finding));
            }
            tracing::warn!(
                "{letter} {word}: what follows lsn {lsn} is copied to wal/cut-{:020}-*.bin and cut off; `walctl dump {} \
                 --to-lsn {lsn}` shows what stays",
                lsn.get(),
                options.dir.display()
            );
        }
        Verdict::New => {
            tracing::info!("{word}: making a data directory in {}", options.dir.display());
        }
        _ => tracing::info!(
            records = judgement.records,
            "{letter} {word}: the log ends at lsn {lsn}"
        ),
    }
    Ok(())
}

/// The verdict for a person: what, where, and the command that shows more.
fn refusal(judgement: &Judgement, options: &Options, by_option: bool) -> String {
    use std::fmt::Write;
    let dir = options.dir.display();
    let mut text = format!(
        "refused: {} {} in {dir}: the log reads up to lsn {}",
        judgement.letter(),
        judgement.verdict.word(),
        judgement.end_lsn
    );
    if by_option {
        text.push_str(
            " and ends in junk that nothing vouches for; without --strict-recovery it would be cut off",
        );
    }
    for finding in judgement.reasons() {
        write!(text, "\n  {}", describe(finding)).expect("a string takes every write");
    }
    if directory::is_archive(&options.dir) {
        write!(
            text,
            "\nthis is a log that `walctl archive` keeps, and no server goes on with it; nothing was changed. `walctl restore \
             --from {dir} --into NEW --to-lsn {}` makes a data directory of it",
            judgement.end_lsn
        )
        .expect("a string takes every write");
        return text;
    }
    write!(
        text,
        "\nnothing was changed; `walctl verify {dir}` shows everything that was found, `walctl repair {dir}` what can be done about it"
    )
    .expect("a string takes every write");
    text
}

/// One finding in one line: file, offset, lsns, both checksums.
fn describe(finding: &Finding) -> String {
    use std::fmt::Write;
    let mut text = finding.message.clone();
    let mut add = |part: std::fmt::Arguments<'_>| text.write_fmt(part).expect("a string takes every write");
    if let Some(place) = &finding.place {
        add(format_args!(
            "; file {} offset {}",
            place.dir.join(&place.name),
            place.offset
        ));
    }
    if let Some(lsn) = finding.lsn {
        add(format_args!("; lsn {lsn}"));
    }
    if let Some(lsn) = finding.promised {
        add(format_args!("; promised up to lsn {lsn}"));
    }
    if let (Some(expected), Some(found)) = (finding.expected_crc, finding.found_crc) {
        add(format_args!("; expected crc {expected:08x}, found {found:08x}"));
    }
    text
}

//! What was found, in words ([`human`]) and as JSON ([`json`]).

mod human;
mod json;

use std::path::Path;

use idem_wal::recovery::{Finding, FindingKind, Judgement};
use serde::Serialize;

pub(super) use self::human::print as human;
pub(super) use self::json::print as json;
use super::deep::{Below, Deep};

/// All that there is to say of a directory.
pub(super) struct Report<'a> {
    /// As it was given.
    pub(super) dir: &'a Path,
    pub(super) judgement: &'a Judgement,
    pub(super) live: bool,
    /// Whether it is a history in a store: a copy that no server uses.
    pub(super) archived: bool,
    /// What `--deep` found in the replay, when there was one.
    pub(super) deep: Option<&'a Deep>,
    /// What `--deep` found in the log that a start does not read.
    pub(super) below: Option<&'a Below>,
}

/// Where something was found, and what should be there.
#[derive(Default, Serialize)]
pub(super) struct Where {
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    offset: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lsn: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    promised_lsn: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expected_crc: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    found_crc: Option<u32>,
}

impl From<&Finding> for Where {
    fn from(finding: &Finding) -> Self {
        Where {
            file: finding.place.as_ref().map(|place| {
                let file = place.dir.join(&place.name);
                match file.trim_end_matches('/') {
                    "" => ".".to_owned(),
                    path => path.to_owned(),
                }
            }),
            offset: finding.place.as_ref().map(|place| place.offset),
            lsn: finding.lsn.map(idem_protocol::Lsn::get),
            promised_lsn: finding.promised.map(idem_protocol::Lsn::get),
            expected_crc: finding.expected_crc,
            found_crc: finding.found_crc,
        }
    }
}

/// What is worth showing: reasons of the deciding row first, then what stands beside it, then reasons for other refusals.
/// A row that only cuts says the same as the deciding one in other words.
fn shown(judgement: &Judgement) -> impl Iterator<Item = &Finding> {
    let matters = |finding: &&Finding| match finding.kind {
        FindingKind::Beside => true,
        FindingKind::Row(row) => row == judgement.row || row.refuses(),
    };
    judgement.findings.iter().filter(matters)
}

//! INFO: Redis's sections and names wherever the meaning is the same, then `Idempotency` and `Wal`.
//!
//! The engine knows half of the numbers, the server the other half; it hands them in as [`ServerFacts`]. Lines end in
//! CRLF; sections come in Redis's order, because tools (Sentinel first of all) read them line by line.
//!
//! Left out: fields whose subject does not exist here (scripts, `rdb_last_cow_size`, tracking …). A number that means
//! nothing is worse than none.

mod facts;
mod sections;

use std::fmt::{Display, Write as _};

pub use facts::{ClientFacts, Facts, ServerFacts};
pub(crate) use sections::replication_offset;

use crate::decide::View;

/// What `HELLO` and INFO call this server.
pub const SERVER_NAME: &str = "idemd";

/// The version of Redis that commands behave like: clients parse it to find out what they may use.
pub const REDIS_VERSION: &str = "7.2.0";

type Section = (&'static str, fn(&mut Page, &ServerFacts, &View<'_>));

const SECTIONS: [Section; 12] = [
    ("Server", sections::server),
    ("Clients", sections::clients),
    ("Memory", sections::memory),
    ("Persistence", sections::persistence),
    ("Stats", sections::stats),
    ("Replication", sections::replication),
    ("CPU", sections::cpu),
    ("Errorstats", sections::errorstats),
    ("Cluster", sections::cluster),
    ("Keyspace", sections::keyspace),
    ("Idempotency", sections::idempotency),
    ("Wal", sections::wal),
];

/// The text of INFO with these arguments: section names in any case, `default`, `all` and `everything`; nothing for a
/// name that is no section. Without arguments all sections.
pub(crate) fn render<'a>(wanted: impl ExactSizeIterator<Item = &'a [u8]>, view: &View<'_>) -> String {
    let mut every = wanted.len() == 0;
    let mut chosen = [false; SECTIONS.len()];
    for name in wanted {
        every |= ["default", "all", "everything"]
            .iter()
            .any(|word| name.eq_ignore_ascii_case(word.as_bytes()));
        for (chosen, (section, _)) in chosen.iter_mut().zip(&SECTIONS) {
            *chosen |= name.eq_ignore_ascii_case(section.as_bytes());
        }
    }
    let facts = view.facts().info();
    let mut page = Page {
        text: String::with_capacity(4096),
    };
    for (chosen, (section, fill)) in chosen.into_iter().zip(&SECTIONS) {
        if every || chosen {
            page.begin(section);
            fill(&mut page, &facts, view);
        }
    }
    page.text
}

struct Page {
    text: String,
}

impl Page {
    fn begin(&mut self, section: &str) {
        let gap = if self.text.is_empty() { "" } else { "\r\n" };
        write!(self.text, "{gap}# {section}\r\n").expect("a string takes every write");
    }

    fn line(&mut self, name: impl Display, value: impl Display) {
        write!(self.text, "{name}:{value}\r\n").expect("a string takes every write");
    }

    /// A number of bytes, and the same for people.
    fn bytes(&mut self, name: &str, bytes: u64) {
        self.line(name, bytes);
        self.line(format_args!("{name}_human"), human(bytes));
    }
}

/// `512B`, `1.50K`, `2.00M`, `3.25G`, as Redis prints sizes.
fn human(bytes: u64) -> String {
    let units = [(1_u64 << 40, 'T'), (1 << 30, 'G'), (1 << 20, 'M'), (1 << 10, 'K')];
    match units.into_iter().find(|(size, _)| bytes >= *size) {
        // In integers: hundredths, rounded down, so that no size reads as larger than it is.
        Some((size, unit)) => {
            let hundredths = u128::from(bytes) * 100 / u128::from(size);
            format!("{}.{:02}{unit}", hundredths / 100, hundredths % 100)
        }
        None => format!("{bytes}B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_for_people() {
        for (bytes, text) in [
            (0, "0B"),
            (1023, "1023B"),
            (1024, "1.00K"),
            (1536, "1.50K"),
            (1 << 20, "1.00M"),
            (u64::MAX, "16777215.99T"),
        ] {
            assert_eq!(human(bytes), text);
        }
    }
}

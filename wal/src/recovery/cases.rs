//! The table itself: a pure function from what was found to a row.
//!
//! It knows no files. [`Evidence`] has one field for each thing that a row speaks of, so the whole space can be
//! enumerated: some row always applies, and the first one is the expected one (the test does exactly that).

/// A row of the table, by its letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Row {
    /// Not a row: there is no log yet.
    New,
    /// A read failed.
    I,
    /// Newer format, other cluster or node, unknown opcode.
    H,
    /// Something is missing.
    G,
    /// Undamaged and impossible.
    J,
    /// What is gone was promised.
    F,
    /// Later frames without a promise of what is gone.
    D,
    /// Clean mark at L, nothing after it.
    A,
    /// Clean mark at L, something after it.
    C,
    /// No clean mark, nothing after L.
    B,
    /// No clean mark, junk after L.
    E,
}

impl Row {
    /// The rows in the order in which they are tried.
    pub const ORDER: [Row; 10] = [
        Row::I,
        Row::H,
        Row::G,
        Row::J,
        Row::F,
        Row::D,
        Row::A,
        Row::C,
        Row::B,
        Row::E,
    ];

    /// The letter; `N` for a new directory.
    pub const fn letter(self) -> char {
        match self {
            Row::New => 'N',
            Row::I => 'I',
            Row::H => 'H',
            Row::G => 'G',
            Row::J => 'J',
            Row::F => 'F',
            Row::D => 'D',
            Row::A => 'A',
            Row::C => 'C',
            Row::B => 'B',
            Row::E => 'E',
        }
    }

    /// True for the rows with which a server does not start.
    pub const fn refuses(self) -> bool {
        matches!(self, Row::I | Row::H | Row::G | Row::J | Row::F)
    }

    /// True for the rows that cut the log at L.
    pub const fn cuts(self) -> bool {
        matches!(self, Row::C | Row::D | Row::E)
    }
}

/// Where the clean mark lies, compared with L.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CleanMark {
    /// There is none.
    #[default]
    None,
    /// Below L: records follow a log that was said to be closed.
    Below,
    /// At L.
    At,
    /// Above L: it promises more.
    Above,
}

/// What was found. Every combination is possible; the order of the rows gives each a meaning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Evidence {
    /// A read of `control`, of a judged segment or of a directory failed.
    pub read_failed: bool,
    /// A readable header of a newer format or another cluster or node, or an unknown opcode.
    pub foreign: bool,
    /// A segment or the control file is missing, damaged, misnamed or too short, or the log begins above its start.
    pub incomplete: bool,
    /// A valid checksum over something that no writer writes.
    pub impossible: bool,
    /// L lies in a segment that has a successor.
    pub has_successor: bool,
    /// A successor's header has another CRC than the record bytes before it.
    pub successor_crc_differs: bool,
    /// A witness promises more than lsn(L).
    pub promised_more: bool,
    /// A frame header after L begins at lsn(L): a synced seal is missing.
    pub seal_missing: bool,
    /// The newest segment has no good header copy and more than zeros after its header page.
    pub header_lost: bool,
    /// Valid frame headers after L.
    pub witnesses: bool,
    /// The clean mark.
    pub clean: CleanMark,
    /// Anything but zeros after L.
    pub junk: bool,
}

impl Evidence {
    /// True when `row` applies, whatever other rows do.
    pub const fn applies(&self, row: Row) -> bool {
        match row {
            Row::New => false,
            Row::I => self.read_failed,
            Row::H => self.foreign,
            Row::G => self.incomplete,
            Row::J => self.impossible || matches!(self.clean, CleanMark::Below),
            Row::F => {
                self.has_successor
                    || self.successor_crc_differs
                    || self.promised_more
                    || self.seal_missing
                    || self.header_lost
                    || matches!(self.clean, CleanMark::Above)
            }
            Row::D => self.witnesses,
            Row::A => matches!(self.clean, CleanMark::At) && !self.junk,
            Row::C => matches!(self.clean, CleanMark::At) && self.junk,
            Row::B => matches!(self.clean, CleanMark::None) && !self.junk,
            Row::E => matches!(self.clean, CleanMark::None) && self.junk,
        }
    }

    /// The first row that applies.
    pub fn classify(&self) -> Row {
        Row::ORDER
            .into_iter()
            .find(|row| self.applies(*row))
            .expect("A, B, C, E, F and J together cover every place of the clean mark")
    }
}

#[cfg(test)]
mod tests {
    use super::{CleanMark, Evidence, Row};

    fn all() -> impl Iterator<Item = Evidence> {
        (0u32..1 << 11).flat_map(|bits| {
            [CleanMark::None, CleanMark::Below, CleanMark::At, CleanMark::Above].map(|clean| Evidence {
                read_failed: bits & 1 != 0,
                foreign: bits & 2 != 0,
                incomplete: bits & 4 != 0,
                impossible: bits & 8 != 0,
                has_successor: bits & 16 != 0,
                successor_crc_differs: bits & 32 != 0,
                promised_more: bits & 64 != 0,
                seal_missing: bits & 128 != 0,
                header_lost: bits & 256 != 0,
                witnesses: bits & 512 != 0,
                junk: bits & 1024 != 0,
                clean,
            })
        })
    }

    /// The table again, as a chain of questions in the order of the page, written apart from `applies`.
    fn expected(e: &Evidence) -> char {
        if e.read_failed {
            return 'I';
        }
        if e.foreign {
            return 'H';
        }
        if e.incomplete {
            return 'G';
        }
        if e.impossible || e.clean == CleanMark::Below {
            return 'J';
        }
        let broken_promises = [
            e.has_successor,
            e.successor_crc_differs,
            e.promised_more,
            e.seal_missing,
            e.header_lost,
            e.clean == CleanMark::Above,
        ];
        if broken_promises.contains(&true) {
            return 'F';
        }
        match (e.witnesses, e.clean == CleanMark::At, e.junk) {
            (true, _, _) => 'D',
            (false, true, false) => 'A',
            (false, true, true) => 'C',
            (false, false, false) => 'B',
            (false, false, true) => 'E',
        }
    }

    #[test]
    fn some_row_always_applies_and_the_first_is_the_expected_one() {
        let mut seen = std::collections::BTreeSet::new();
        for evidence in all() {
            let row = evidence.classify();
            assert_eq!(row.letter(), expected(&evidence), "{evidence:?}");
            seen.insert(row);
        }
        assert_eq!(
            seen.len(),
            Row::ORDER.len(),
            "every row is the answer to something"
        );
    }

    #[test]
    fn a_row_that_refuses_never_cuts() {
        for row in Row::ORDER {
            assert!(!(row.refuses() && row.cuts()), "{row:?}");
        }
    }
}

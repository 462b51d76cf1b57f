//! The lines of one record: of a log that is walked through, and of what a start cut off its end.
//!
//! A Transaction is shown part by part, each with its number and their count, at the transaction's position and time. Which
//! parts are wanted is the filter's to say.

use idem_protocol::wal::{Opcode, RawRecord, Record};

use super::filter::Filter;
use crate::exit::Failure;
use crate::line::Line;
use crate::output::Printed;

/// The lines of one record that are wanted: one, or one for each part of a Transaction.
pub(super) fn each_line<'a>(
    raw: &RawRecord<'_>,
    record: &Record<'a>,
    filter: &Filter,
    values: bool,
    print: &mut dyn FnMut(Line<'a>) -> Result<Printed, Failure>,
) -> Result<Printed, Failure> {
    let Record::Transaction { records } = record else {
        return if filter.picks(record.opcode(), raw.db, record) {
            print(Line::new(raw, raw.db, record, values))
        } else {
            Ok(Printed::All)
        };
    };
    for (index, (db, part)) in records.iter().enumerate() {
        if !filter.picks(Opcode::Transaction, db, &part) {
            continue;
        }
        let mut line = Line::new(raw, db, &part, values);
        line.tx_index = Some(index);
        line.tx_count = Some(records.len());
        if print(line)? == Printed::Closed {
            return Ok(Printed::Closed);
        }
    }
    Ok(Printed::All)
}

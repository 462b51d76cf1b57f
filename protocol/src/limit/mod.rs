//! Counting calls: what ONCE and LIMIT store, and what one call of LIMIT does with it.
//!
//! Vocabulary
//! * *Call*: one LIMIT command, as numbers ([`Call`]); its cost is 1 except for a bucket.
//! * *Mode*: how calls are counted, *fixed*, *sliding* or *tokens* ([`Mode`]).
//! * *Window*: the milliseconds over which `max` calls fit. The record's window counts as long as the record lives; `max`
//!   is always the call's own.
//! * *End*: the moment from which a record says no more than no record would ([`LimitRecord::ends_at`]). It is the key's
//!   deadline, too.
//!
//! Invariants
//! * What does not fit changes nothing: there is no record to write.
//! * Time alone never makes a call fit less: the wait that a refusal names is the shortest, and is enough.
//! * Integers only, in 128 bits where they are multiplied: nothing overflows, nothing is rounded but where the formulas
//!   say `floor`.
//!
//! Deliberately absent: clocks and keys. The caller looks up the record and says what time it is.

mod record;
mod rule;

pub use record::{
    BUCKET_MAX, FORMAT_VERSION, LimitRecord, MAGIC, MAX_MAX, ONCE_MARKER, RECORD_BYTES, TOKEN_PARTS, Usage,
};
pub use rule::{Call, Mode, Verdict, call};

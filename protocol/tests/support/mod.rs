//! What the tests of the formats share: the golden vectors, owned twins of the borrowed types, and one reader per
//! format that says what it read by writing it again.

#![allow(
    dead_code,
    unreachable_pub,
    reason = "every test file compiles this module and uses its own part of it"
)]
#![allow(
    clippy::unwrap_used,
    reason = "the lint knows test functions and not what they call"
)]

pub mod formats;
pub mod golden;
pub mod owned;
pub mod records;
pub mod snapshot;
pub mod strategies;
pub mod values;

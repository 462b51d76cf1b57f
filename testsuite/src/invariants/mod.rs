//! Properties that every honest build has, one file each. Each says why the others do not imply it.
//!
//! A property is a function from what was seen to a list of violations, so that the same function that passes an honest
//! build can be shown to catch a broken one.

pub mod at_most_one_acquired;
pub mod completed_has_deadline;
pub mod directory_synced_before_use;
pub mod reply_after_sync;

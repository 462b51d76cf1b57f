//! CONFIG on the real server: what can be changed while it runs, with which values, and that it has its effect.
//!
//! Goal: a value is taken exactly when the start would take it; what is refused changes nothing, whatever came with it; what
//! is taken is shown, holds for those who are connected already, and survives a restart through REWRITE. Method: one table
//! of options with good and bad values, CONFIG GET before and after, and a client that feels each limit.

mod clients;
mod log;
mod rewrite;
mod support;
mod table;

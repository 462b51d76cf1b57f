//! See `idem_testsuite::fuzz::command`.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| idem_testsuite::fuzz::command(data));

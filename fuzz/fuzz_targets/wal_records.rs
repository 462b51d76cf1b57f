//! See `idem_testsuite::fuzz::wal_records`.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| idem_testsuite::fuzz::wal_records(data));

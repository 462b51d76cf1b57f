//! See `idem_testsuite::fuzz::glob`.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| idem_testsuite::fuzz::glob(data));

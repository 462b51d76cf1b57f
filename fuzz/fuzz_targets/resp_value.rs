//! See `idem_testsuite::fuzz::resp_value`.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| idem_testsuite::fuzz::resp_value(data));

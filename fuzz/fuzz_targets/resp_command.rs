//! See `idem_testsuite::fuzz::resp_command`.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| idem_testsuite::fuzz::resp_command(data));

//! What a machine does not permit: said aloud, never passed over.

/// With this variable set to 1 (as in CI) a skipped test is a failed one.
pub const REQUIRE_VARIABLE: &str = "IDEM_REQUIRE_ALL";

/// Ends a test early because this machine lacks something: one line on stderr, or a failure under `IDEM_REQUIRE_ALL=1`.
///
/// The line goes past the capture of the test runner, so that a run which looked green shows what it did not do.
pub fn skip(test: &str, reason: &str) {
    use std::io::Write;
    let required = std::env::var_os(REQUIRE_VARIABLE).is_some_and(|value| value == "1");
    assert!(
        !required,
        "{test} cannot run here ({reason}), and {REQUIRE_VARIABLE}=1 forbids to skip it"
    );
    let _ = writeln!(std::io::stderr(), "SKIPPED {test}: {reason}");
}

/// Ends a test early because this machine does not let us mount: one line on stderr, and no failure. A missing tool can
/// be installed; a container without that right cannot be given it by whoever runs the tests in it.
pub fn not_permitted(test: &str, reason: &str) {
    use std::io::Write;
    let _ = writeln!(std::io::stderr(), "SKIPPED {test}: {reason}");
}

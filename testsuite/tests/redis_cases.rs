//! The cases of Redis's commands, against a node in this process, the real server, and a real `redis-server`. What passes
//! there has to pass here; a case that does not belong to all three is marked in its file, with the reason.

use idem_testsuite::contract::{
    NodeTarget, RedisTarget, Report, Scope, ServerTarget, Target, command_files, run,
};
use idem_testsuite::process::IdemdOptions;
use idem_testsuite::require::skip;
use idem_testsuite::testdir::TestDir;

fn check(target: &mut impl Target) -> Report {
    let report = run(target, &command_files());
    assert!(report.cases > 0, "the cases were found");
    assert!(
        report.failures.is_empty(),
        "{} of {} cases failed:\n{}",
        report.failures.len(),
        report.cases,
        report.failures.join("\n")
    );
    report
}

#[test]
fn a_node_in_this_process_answers_as_redis_does() {
    let report = check(&mut NodeTarget::new());
    assert_eq!(report.left_out, 0, "every case is ours");
}

#[test]
fn the_server_answers_as_redis_does() {
    let dir = TestDir::new("redis-cases", 1);
    // The promise is not what these cases are about: without syncs they take seconds.
    let options = IdemdOptions::default()
        .option("appendfsync", "no")
        .option("wal-segment-bytes", "16mb");
    check(&mut ServerTarget::start(&dir.data(), options));
}

#[test]
fn redis_itself_passes_its_cases() {
    let dir = TestDir::new("redis-itself", 1);
    match RedisTarget::start(&dir.data()) {
        Ok(mut redis) => {
            let report = check(&mut redis);
            let marked = command_files()
                .iter()
                .flat_map(|file| &file.cases)
                .filter(|case| case.scope != Scope::Everywhere)
                .count();
            // Each is left out in both protocols, or, of a version that is old enough, played.
            assert!(report.left_out <= 2 * marked);
        }
        Err(reason) => skip("redis_itself_passes_its_cases", &reason),
    }
}

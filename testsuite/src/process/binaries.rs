//! Where the binaries are, and building them when they may be missing or stale.
//!
//! A test of this crate cannot ask cargo for the executables of other packages. They lie in the profile's directory,
//! beside the `deps` that holds the test itself, but nobody promises that they are there or fresh: a plain
//! `cargo test -p idem-testsuite` on a new clone has not built them. So the first use in a process asks cargo for them,
//! which costs nothing when they are fresh. The lock that cargo holds while compiling is free by the time tests run.
//!
//! Outside of cargo (an executable of this crate started by hand) there is no `CARGO` in the environment; what lies
//! beside the executable is then taken as it is.
//!
//! The server and walctl are always what cargo makes of them alone, as users get them: built with the whole workspace they
//! have features of dependencies that only tests ask for. For examples that is no matter, and with `IDEM_TEST_BUILT=1`,
//! which whoever has just built the whole workspace may set, they are not built again.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, OnceLock, PoisonError};

/// Says that examples were built before, of this very tree.
const BUILT_VARIABLE: &str = "IDEM_TEST_BUILT";

/// The server's executable, of the profile that this test was built with.
pub fn idemd() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| located("idemd"))
}

/// The operators' tool, of the same profile.
pub fn walctl() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| located("walctl"))
}

/// An example of a package of this workspace, of the same profile.
pub fn example(package: &str, name: &str) -> PathBuf {
    static BUILT: Mutex<Vec<String>> = Mutex::new(Vec::new());
    let mut built = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
    let is_built = std::env::var_os(BUILT_VARIABLE).is_some_and(|value| value == "1");
    if let Some(cargo) = cargo().filter(|_| !is_built)
        && !built.iter().any(|done| done == package)
    {
        let mut command = cargo_build(&cargo);
        command.args(["-p", package, "--examples", "--profile", profile()]);
        run(command.arg("--target-dir").arg(target_directory()));
        built.push(package.to_owned());
    }
    existing(profile_directory().join("examples").join(executable_name(name)))
}

/// The server with its sabotages compiled in (feature `sabotage`), in a target directory of its own so that it never
/// takes the place of the honest one.
pub fn sabotaged_idemd() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| {
        let target = profile_directory().with_file_name("sabotage");
        let mut command =
            cargo_build(&cargo().expect("broken builds are made by cargo: run this under `cargo test`"));
        command.args(["-p", "idem-server", "--features", "sabotage", "--profile", "dev"]);
        run(command.arg("--target-dir").arg(&target));
        target.join("debug").join(executable_name("idemd"))
    })
}

/// Cargo's target directory: tests find there what was installed for them.
pub fn target_directory() -> PathBuf {
    profile_directory()
        .parent()
        .expect("a profile's directory lies in a target directory")
        .to_owned()
}

fn located(name: &str) -> PathBuf {
    static BUILT: OnceLock<()> = OnceLock::new();
    if let Some(cargo) = cargo() {
        BUILT.get_or_init(|| build(&cargo));
    }
    existing(profile_directory().join(executable_name(name)))
}

fn existing(path: PathBuf) -> PathBuf {
    assert!(
        path.is_file(),
        "{} is not there, and it is not to be built here: no CARGO in the environment, or {BUILT_VARIABLE}=1",
        path.display()
    );
    path
}

/// One call builds both binaries: two calls could choose different features for what they share, and build it twice.
fn build(cargo: &OsString) {
    let mut command = cargo_build(cargo);
    command.args([
        "-p",
        "idem-server",
        "-p",
        "walctl",
        "--bins",
        "--profile",
        profile(),
    ]);
    run(command.arg("--target-dir").arg(target_directory()));
}

/// The profile that this test was built with, as `--profile` has it.
fn profile() -> &'static str {
    static PROFILE: OnceLock<String> = OnceLock::new();
    PROFILE.get_or_init(|| {
        let directory = profile_directory();
        let name = directory.file_name().and_then(|name| name.to_str());
        // The directory of the profile `dev` is the only one that is not called like it.
        name.filter(|name| *name != "debug").unwrap_or("dev").to_owned()
    })
}

fn cargo_build(cargo: &OsString) -> Command {
    let mut command = Command::new(cargo);
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("this crate lies in the workspace");
    command
        .arg("build")
        .arg("--quiet")
        .current_dir(workspace)
        .stdin(Stdio::null());
    command
}

fn run(command: &mut Command) {
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("{command:?} does not start: {error}"));
    assert!(
        output.status.success(),
        "{command:?} failed, {}:\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
}

fn cargo() -> Option<OsString> {
    std::env::var_os("CARGO").filter(|path| !path.is_empty())
}

/// `target/<profile>`: the parent of the `deps` in which a test lies, or the directory of a binary.
fn profile_directory() -> PathBuf {
    let executable = std::env::current_exe().expect("the test has a path");
    let directory = executable.parent().expect("an executable lies in a directory");
    if directory.file_name().is_some_and(|name| name == "deps") {
        directory
            .parent()
            .expect("`deps` lies in the profile's directory")
            .to_owned()
    } else {
        directory.to_owned()
    }
}

fn executable_name(name: &str) -> String {
    format!("{name}{}", std::env::consts::EXE_SUFFIX)
}

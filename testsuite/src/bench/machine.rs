//! Where and with what a run was made. Numbers without that are rumours.

use std::path::Path;
use std::process::Command;

use super::pin::Cores;
use super::server::Site;

/// Lines of a description, each a name and what was found; `unknown` for what the machine does not tell.
pub fn describe(site: &Site, arguments: &str) -> Vec<(&'static str, String)> {
    let cpu = read("/proc/cpuinfo");
    let models = || cpu.lines().filter_map(|line| value(line, "model name"));
    let memory = read("/proc/meminfo");
    let memory = memory.lines().find_map(|line| value(line, "MemTotal"));
    let gigabytes = memory
        .and_then(|text| text.split_whitespace().next()?.parse::<u64>().ok())
        .map(|kilobytes| format!("{:.1} GiB", super::number(kilobytes) / f64::from(1 << 20)));
    let cores = match site.cores {
        Some(Cores { server, generator }) => {
            format!("server on core {server}, generator on core {generator}")
        }
        None => "one core for both: nothing is pinned, and the numbers mean little".to_owned(),
    };
    vec![
        ("date", jiff::Timestamp::now().strftime("%F %R UTC").to_string()),
        ("commit", commit()),
        (
            "command",
            format!("cargo xtask bench {arguments}").trim_end().to_owned(),
        ),
        (
            "processor",
            format!("{} × {}", models().count(), or_unknown(models().next())),
        ),
        ("pinning", cores),
        ("memory", or_unknown(gigabytes)),
        (
            "kernel",
            format!("Linux {}", or_unknown(one_line("/proc/sys/kernel/osrelease"))),
        ),
        ("file system", file_system(&read("/proc/mounts"), &site.root)),
        ("Redis", redis(site)),
    ]
}

fn redis(site: &Site) -> String {
    let words = output(Command::new(&site.redis).arg("--version"));
    let words = words.as_deref().unwrap_or_default().split_whitespace();
    let version = words.clone().find_map(|word| word.strip_prefix("v="));
    let allocator = words.clone().find_map(|word| word.strip_prefix("malloc="));
    format!("{}, {}", or_unknown(version), or_unknown(allocator))
}

/// The commit of this source, and whether something is changed on top of it.
fn commit() -> String {
    let mut git = Command::new("git");
    git.current_dir(env!("CARGO_MANIFEST_DIR")).args([
        "describe",
        "--always",
        "--dirty=, with changes",
        "--abbrev=10",
    ]);
    or_unknown(output(&mut git))
}

fn output(command: &mut Command) -> Option<String> {
    let output = command.output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Type, device and options of the mount that holds `path`: the longest of those above it, the last of equal ones.
fn file_system(mounts: &str, path: &Path) -> String {
    let path = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let lines = mounts.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        let (device, mount, kind, options) = (words.next()?, words.next()?, words.next()?, words.next()?);
        path.starts_with(mount)
            .then(|| (mount.len(), format!("{kind} on {device} ({options})")))
    });
    or_unknown(lines.max_by_key(|(length, _)| *length).map(|(_, text)| text))
}

/// The value of a line such as `model name : …`.
fn value<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    let (found, value) = line.split_once(':')?;
    (found.trim() == name).then(|| value.trim())
}

fn read(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

fn one_line(path: &str) -> Option<String> {
    Some(read(path).trim().to_owned()).filter(|text| !text.is_empty())
}

fn or_unknown(text: Option<impl Into<String>>) -> String {
    text.map_or_else(|| "unknown".to_owned(), Into::into)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{file_system, value};

    #[test]
    fn the_mount_that_holds_a_path() {
        let mounts =
            "/dev/a / ext4 rw 0 0\nproc /proc proc rw 0 0\n/dev/b /nowhere/data xfs rw,noatime 0 0\n";
        for (path, expected) in [
            ("/nowhere/data/x", "xfs on /dev/b (rw,noatime)"),
            ("/nowhere/dat", "ext4 on /dev/a (rw)"),
        ] {
            assert_eq!(file_system(mounts, Path::new(path)), expected);
        }
        assert_eq!(file_system("", Path::new("/")), "unknown");
        assert_eq!(value("model name\t: A B", "model name"), Some("A B"));
    }
}

//! The one line that a server prints on stdout when it serves.

use std::net::SocketAddr;
use std::time::Duration;

/// `ready addr=… role=… epoch=… lsn=… records=… seconds=… dir=…`
#[derive(Clone, Debug, PartialEq)]
pub struct Ready {
    /// Where it listens.
    pub address: SocketAddr,
    /// `primary` or `follower`.
    pub role: String,
    /// Number of the epoch that this start began.
    pub epoch: u64,
    /// End of the log, the EpochStart record included.
    pub lsn: u64,
    /// Records recovered.
    pub records: u64,
    /// How long the start took.
    pub took: Duration,
}

impl Ready {
    /// Reads the line. The error says what is missing.
    pub fn parse(line: &str) -> Result<Ready, String> {
        let rest = line
            .strip_prefix("ready ")
            .ok_or_else(|| format!("`{line}` is no ready line"))?;
        let field = |name: &str| {
            rest.split(' ')
                .find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))
                .ok_or_else(|| format!("`{line}` has no {name}="))
        };
        let number = |name: &str| {
            field(name)?
                .parse::<u64>()
                .map_err(|_| format!("`{line}`: {name} is no number"))
        };
        let seconds: f64 = field("seconds")?
            .parse()
            .map_err(|_| format!("`{line}`: seconds is no number"))?;
        field("dir")?;
        Ok(Ready {
            address: field("addr")?
                .parse()
                .map_err(|_| format!("`{line}`: addr is no address"))?,
            role: field("role")?.to_owned(),
            epoch: number("epoch")?,
            lsn: number("lsn")?,
            records: number("records")?,
            took: Duration::try_from_secs_f64(seconds)
                .map_err(|_| format!("`{line}`: seconds is no time"))?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Ready;

    #[test]
    fn the_documented_line_is_read() {
        let line = "ready addr=127.0.0.1:6379 role=primary epoch=1 lsn=64 records=0 seconds=0.01 dir=/a b/c";
        let ready = Ready::parse(line).unwrap();
        assert_eq!(ready.address.port(), 6379);
        assert_eq!(
            (ready.role.as_str(), ready.epoch, ready.lsn, ready.records),
            ("primary", 1, 64, 0)
        );
        assert_eq!(ready.took.as_millis(), 10);
    }

    #[test]
    fn other_lines_are_refused_in_words() {
        for (line, expected) in [
            ("Ready", "is no ready line"),
            ("ready addr=127.0.0.1:1 role=primary", "has no"),
            (
                "ready addr=nowhere role=primary epoch=1 lsn=64 records=0 seconds=0.01 dir=.",
                "is no address",
            ),
            (
                "ready addr=127.0.0.1:1 role=primary epoch=x lsn=64 records=0 seconds=0.01 dir=.",
                "is no number",
            ),
            (
                "ready addr=127.0.0.1:1 role=primary epoch=1 lsn=64 records=0 seconds=-1 dir=.",
                "is no time",
            ),
        ] {
            let error = Ready::parse(line).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }
}

//! Under `always`, no reply leaves while the record that it reveals is only in the kernel's hands.
//!
//! No SIGKILL shows a reply that came too early: the kernel keeps what was written. Only a power loss takes it. So this
//! is looked for in the order of the system calls of a run in which *one* client asks one thing after the other: at each
//! send, every frame written so far has been synced, successfully. Seals are no frames here: they hold nothing that a
//! reply could reveal.

use std::path::Path;

use idem_protocol::wal::FRAME_HEADER_BYTES;

use crate::trace::Call;

/// Looks at a trace of one client that waits for each reply.
pub fn check(calls: &[Call]) -> Vec<String> {
    let mut violations = Vec::new();
    for send in calls.iter().filter(|call| call.is_send()) {
        let unsynced = calls
            .iter()
            .filter(|call| call.begin < send.begin && is_frame(call))
            .find(|write| {
                let synced = |sync: &&Call| {
                    sync.is_sync()
                        && sync.succeeded()
                        && sync.file() == write.file()
                        && sync.end < Some(send.begin)
                };
                !write
                    .end
                    .is_some_and(|written| calls.iter().filter(synced).any(|sync| sync.begin > written))
            });
        if let Some(write) = unsynced {
            let (write, send) = (write.begin + 1, send.begin + 1);
            violations.push(format!(
                "the reply on line {send} left before the write on line {write} was synced"
            ));
        }
    }
    violations
}

/// Replies in the trace: a check of none of them proves nothing.
pub fn replies(calls: &[Call]) -> usize {
    calls.iter().filter(|call| call.is_send()).count()
}

fn is_frame(call: &Call) -> bool {
    let segment = |file: &str| {
        Path::new(file)
            .extension()
            .is_some_and(|extension| extension == "wal")
    };
    let of_segment = call.file().is_some_and(segment);
    // A seal is a frame's header alone.
    of_segment
        && call
            .span()
            .is_some_and(|(length, _)| usize::try_from(length).is_ok_and(|n| n > FRAME_HEADER_BYTES))
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::trace::parse;

    const WRITE: &str = "1 0.1 pwrite64(7</d/wal/00000000000000000064.wal>, \"\"..., 64, 4096) = 64 <0.1>\n";
    const SEAL: &str = "1 0.1 pwrite64(7</d/wal/00000000000000000064.wal>, \"\"..., 32, 4160) = 32 <0.1>\n";
    const SYNC: &str = "1 0.2 fdatasync(7</d/wal/00000000000000000064.wal>) = 0 <0.1>\n";
    const FAILED: &str =
        "1 0.2 fdatasync(7</d/wal/00000000000000000064.wal>) = -1 EIO (Input/output error) <0.1>\n";
    const BEGUN: &str = "1 0.2 fdatasync(7</d/wal/00000000000000000064.wal> <unfinished ...>\n";
    const SEND: &str = "2 0.3 sendto(9<socket:[5]>, \"\"..., 5, MSG_NOSIGNAL, NULL, 0) = 5 <0.1>\n";
    const RETURNED: &str = "1 0.4 <... fdatasync resumed>) = 0 <0.2>\n";

    #[test]
    fn a_reply_has_to_wait_for_the_return_of_the_sync() {
        for (lines, violations) in [
            (&[WRITE, SYNC, SEND][..], 0),
            (&[SEND], 0),
            (&[WRITE, SYNC, SEAL, SEND], 0),
            (&[WRITE, BEGUN, RETURNED, SEND], 0),
            (&[WRITE, SEND, SYNC], 1),
            (&[SYNC, WRITE, SEND], 1),
            (&[WRITE, FAILED, SEND], 1),
            (&[WRITE, BEGUN, SEND, RETURNED], 1),
        ] {
            assert_eq!(check(&parse(&lines.concat())).len(), violations, "{lines:?}");
        }
    }
}

//! `CLIENT PAUSE`: commands that are held back for a while.
//!
//! A command that is held has not happened: it answers [`Outcome::Held`](crate::Outcome::Held) before anything of it is
//! decided, and is tried again when the pause ends or is taken back. So a pause decides *when* a command runs and never
//! what it does; what ended meanwhile has ended, by the same clock as ever.
//!
//! `CLIENT PAUSE` and `CLIENT UNPAUSE` themselves are never held, from no connection: whoever began a pause of all
//! commands can also end it. (Redis holds them too.)
//!
//! Deliberately absent: a clock. `now` comes with each question; the server wakes whoever waits.

use idem_protocol::UnixMs;
use idem_protocol::command::{CommandId, Flags, Route, SubcommandId};

use crate::session::Session;

/// Which commands a pause holds. The later one holds more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PauseScope {
    /// Those that may write, an EXEC with one of them, and PUBLISH.
    Writes,
    /// All but those that begin and end pauses.
    All,
}

/// Whether commands are held, and until when.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pause(Option<(UnixMs, PauseScope)>);

impl Pause {
    /// Holds commands until `until`. Of two pauses the longer time and the larger scope hold, as in Redis; one that has
    /// passed counts for nothing.
    pub fn begin(&mut self, until: UnixMs, scope: PauseScope, now: UnixMs) {
        let running = self.0.filter(|(end, _)| now < *end);
        let (end, before) = running.unwrap_or((until, scope));
        self.0 = Some((end.max(until), before.max(scope))).filter(|(end, _)| now < *end);
    }

    /// Holds nothing any more.
    pub fn end(&mut self) {
        self.0 = None;
    }

    /// When it ends by itself; `None` when there is none. May have passed.
    pub fn until(&self) -> Option<UnixMs> {
        self.0.map(|(end, _)| end)
    }

    /// Whether a command has to wait; also one that is only to be queued, as in Redis: its EXEC would have to wait anyway.
    pub fn holds(&self, route: Route, session: &Session, now: UnixMs) -> bool {
        match self.0 {
            Some((end, scope)) if now < end => match scope {
                PauseScope::All => !is_about_pauses(route),
                PauseScope::Writes if route.spec.id == CommandId::Exec => session.queued_may_write(),
                PauseScope::Writes => may_write(route),
            },
            _ => false,
        }
    }
}

fn is_about_pauses(route: Route) -> bool {
    let sub = route.subcommand.map(|sub| sub.id);
    matches!(sub, Some(SubcommandId::ClientPause | SubcommandId::ClientUnpause))
}

/// What a pause of writes holds, by itself or queued. A message may tell of a write that others cannot see yet.
pub(crate) fn may_write(route: Route) -> bool {
    route.spec.id == CommandId::Publish || route.flags().contains(Flags::WRITE)
}

#[cfg(test)]
mod tests {
    use idem_protocol::UnixMs;
    use idem_protocol::command::resolve;
    use idem_protocol::resp::Args;

    use super::{Pause, PauseScope};
    use crate::session::Session;

    fn ms(ms: u64) -> UnixMs {
        UnixMs::new(ms)
    }

    fn held(pause: Pause, line: &str, now: u64) -> bool {
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        let route = resolve(Args::from(words.as_slice())).unwrap();
        pause.holds(route, &Session::new(1), ms(now))
    }

    #[test]
    fn what_is_held() {
        let (mut writes, mut all) = (Pause::default(), Pause::default());
        writes.begin(ms(20), PauseScope::Writes, ms(10));
        all.begin(ms(20), PauseScope::All, ms(10));
        for (line, by_writes, by_all) in [
            ("SET k v", true, true),
            ("IDEM k BEGIN f o 1000", true, true),
            ("IDEM k INSPECT", false, true),
            ("ONCE k 1", true, true),
            ("FLUSHALL", true, true),
            ("GET k", false, true),
            ("PING", false, true),
            ("PUBLISH c m", true, true),
            ("CLIENT LIST", false, true),
            ("CLIENT PAUSE 1", false, false),
            ("client unpause", false, false),
        ] {
            assert_eq!(held(writes, line, 19), by_writes, "{line}");
            assert_eq!(held(all, line, 19), by_all, "{line}");
            assert!(!held(writes, line, 20) && !held(all, line, 20), "{line}");
            assert!(!held(Pause::default(), line, 19), "{line}");
        }
    }

    /// Every pair of pauses, one after the other.
    #[test]
    fn the_longer_and_the_larger_win() {
        let scopes = [PauseScope::Writes, PauseScope::All];
        for (first, second) in scopes.iter().flat_map(|a| scopes.map(|b| (*a, b))) {
            for (first_end, second_end) in [(20, 30), (30, 20), (30, 0), (12, 15), (15, 12)] {
                let mut pause = Pause::default();
                pause.begin(ms(first_end), first, ms(10));
                pause.begin(ms(second_end), second, ms(13));
                let runs = first_end > 13;
                let end = if runs {
                    first_end.max(second_end)
                } else {
                    second_end
                };
                let scope = if runs { first.max(second) } else { second };
                for now in 13..35 {
                    let case = (first, first_end, second, second_end, now);
                    assert_eq!(held(pause, "SET k v", now), now < end, "{case:?}");
                    let holds_all = scope == PauseScope::All && now < end;
                    assert_eq!(held(pause, "GET k", now), holds_all, "{case:?}");
                }
                pause.end();
                assert_eq!((pause.until(), held(pause, "SET k v", 13)), (None, false));
            }
        }
    }

    #[test]
    fn a_pause_of_no_time_is_none() {
        let mut pause = Pause::default();
        pause.begin(ms(10), PauseScope::All, ms(10));
        assert_eq!(pause.until(), None);
    }
}

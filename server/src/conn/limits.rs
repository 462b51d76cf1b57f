//! What one connection may take: a copy of the options that it needs for every command, which follows CONFIG SET.

use std::rc::Rc;

use idem_protocol::resp::decode::Limits;

use crate::config::{Options, SharedOptions};

/// See the module.
#[derive(Debug)]
pub(super) struct ClientLimits {
    /// What the others are made of.
    options: Rc<Options>,
    /// What a command may look like.
    pub(super) decoder: Limits,
    /// Bytes that an unfinished command may have.
    pub(super) query_bytes: usize,
    /// Bytes that may wait to be sent.
    pub(super) output_bytes: usize,
}

impl ClientLimits {
    pub(super) fn new(options: Rc<Options>) -> ClientLimits {
        // A command with one longest argument fits even when the two limits are equal.
        let longest = options.proto_max_bulk_len.saturating_add(Limits::INLINE_BYTES);
        ClientLimits {
            decoder: Limits::with_bulk_bytes(options.proto_max_bulk_len),
            query_bytes: options.client_query_buffer_limit.max(longest),
            output_bytes: options.client_output_buffer_limit,
            options,
        }
    }

    /// Takes what has changed. A command that has begun keeps the limits under which it began: what was announced and
    /// allowed is not cut off in the middle. Cheap when nothing has changed.
    pub(super) fn follow(&mut self, options: &SharedOptions, between_commands: bool) {
        if options.are(&self.options) {
            return;
        }
        if between_commands {
            *self = ClientLimits::new(options.get());
        } else {
            self.output_bytes = options.get().client_output_buffer_limit;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use idem_engine::Changes;

    use super::ClientLimits;
    use crate::config::{Configuration, Options};

    #[test]
    fn a_command_that_has_begun_keeps_its_limits() {
        let mut config = Configuration::new(Options::default(), None);
        let shared = config.shared();
        let mut limits = ClientLimits::new(Rc::clone(config.options()));
        let check = |limits: &ClientLimits, query: usize, output: usize| {
            assert_eq!((limits.query_bytes, limits.output_bytes), (query, output));
        };
        check(&limits, 32 << 20, 64 << 20);
        let changes = [
            ("proto-max-bulk-len", "1048576"),
            ("client-query-buffer-limit", "2097152"),
            ("client-output-buffer-limit", "3145728"),
        ];
        config.apply(&Changes::new(
            changes.map(|(name, value)| (name, value.to_owned())).into(),
        ));
        limits.follow(&shared, false);
        check(&limits, 32 << 20, 3 << 20);
        limits.follow(&shared, true);
        check(&limits, 2 << 20, 3 << 20);
    }
}

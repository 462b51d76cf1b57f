//! The two small sets of a command: flags, which the server acts on, and categories, which ACL rules name.
//!
//! Both print their members as Redis prints them and in its order, so that listings can be compared line by line.

/// Defines a set of named bits: constants, union, membership, iteration over names, `Display` as a list.
macro_rules! bit_set {
    ($(#[$doc:meta])* $name:ident($bits:ty) { $($(#[$bit_doc:meta])* $constant:ident = $bit:expr, $text:expr;)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
        pub struct $name($bits);

        impl $name {
            /// The empty set.
            pub const NONE: $name = $name(0);
            $($(#[$bit_doc])* pub const $constant: $name = $name(1 << $bit);)*

            /// Every member with its name, in the order of printing.
            pub const ALL: &'static [($name, &'static str)] = &[$(($name::$constant, $text)),*];

            /// Both sets together.
            #[must_use]
            pub const fn with(self, other: $name) -> $name {
                $name(self.0 | other.0)
            }

            /// Whether everything in `other` is in this set.
            pub const fn contains(self, other: $name) -> bool {
                self.0 & other.0 == other.0
            }

            /// Whether anything in `other` is in this set.
            pub const fn intersects(self, other: $name) -> bool {
                self.0 & other.0 != 0
            }

            /// Whether nothing is in this set.
            pub const fn is_empty(self) -> bool {
                self.0 == 0
            }

            /// The names of the members, in the order of printing.
            pub fn names(self) -> impl Iterator<Item = &'static str> {
                $name::ALL.iter().filter(move |(member, _)| self.contains(*member)).map(|(_, name)| *name)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                for (index, name) in self.names().enumerate() {
                    let separator = if index == 0 { "" } else { " " };
                    write!(f, "{separator}{name}")?;
                }
                Ok(())
            }
        }
    };
}

bit_set! {
    /// What a command is and when it may run.
    Flags(u32) {
        /// May change data.
        WRITE = 0, "write";
        /// Only reads data.
        READONLY = 1, "readonly";
        /// May need memory: refused at the limit.
        DENYOOM = 2, "denyoom";
        /// For operators.
        ADMIN = 3, "admin";
        /// Publishes or subscribes.
        PUBSUB = 4, "pubsub";
        /// Not inside scripts.
        NOSCRIPT = 5, "noscript";
        /// May wait for other clients.
        BLOCKING = 6, "blocking";
        /// Allowed before the data is there.
        LOADING = 7, "loading";
        /// Allowed on a follower that has lost its primary.
        STALE = 8, "stale";
        /// Redis puts what it carries out into the slow log instead; here a slow `EXEC` is one entry.
        SKIP_SLOWLOG = 16, "skip_slowlog";
        /// Constant or logarithmic time.
        FAST = 9, "fast";
        /// Allowed before login.
        NO_AUTH = 10, "no_auth";
        /// May be called without any key.
        NO_MANDATORY_KEYS = 11, "no_mandatory_keys";
        /// Not while data is being replaced.
        NO_ASYNC_LOADING = 12, "no_async_loading";
        /// Not inside a transaction.
        NO_MULTI = 13, "no_multi";
        /// Key positions depend on the arguments.
        MOVABLE_KEYS = 14, "movablekeys";
        /// Allowed while a script runs too long.
        ALLOW_BUSY = 15, "allow_busy";
    }
}

bit_set! {
    /// The groups of commands that ACL rules name, with the `@` of their names. All of Redis's are known, also those
    /// that no command here is in: a rule such as `-@geo` is right, and does nothing.
    Categories(u32) {
        /// Keys of any type.
        KEYSPACE = 0, "@keyspace";
        /// Reads data.
        READ = 1, "@read";
        /// Changes data.
        WRITE = 2, "@write";
        /// Sets.
        SET = 3, "@set";
        /// Sorted sets.
        SORTED_SET = 4, "@sortedset";
        /// Lists.
        LIST = 5, "@list";
        /// Hashes.
        HASH = 6, "@hash";
        /// Strings.
        STRING = 7, "@string";
        /// Bitmaps.
        BITMAP = 8, "@bitmap";
        /// Cardinality estimates.
        HYPERLOGLOG = 9, "@hyperloglog";
        /// Places.
        GEO = 10, "@geo";
        /// Streams.
        STREAM = 11, "@stream";
        /// Publish and subscribe.
        PUBSUB = 12, "@pubsub";
        /// For operators.
        ADMIN = 13, "@admin";
        /// Constant or logarithmic time.
        FAST = 14, "@fast";
        /// Everything else.
        SLOW = 15, "@slow";
        /// May wait for other clients.
        BLOCKING = 16, "@blocking";
        /// Can do harm or show too much.
        DANGEROUS = 17, "@dangerous";
        /// The connection itself.
        CONNECTION = 18, "@connection";
        /// Transactions.
        TRANSACTION = 19, "@transaction";
        /// Scripts.
        SCRIPTING = 20, "@scripting";
    }
}

impl Categories {
    /// The category of a name with or without `@`, in any case.
    pub fn by_name(name: &[u8]) -> Option<Categories> {
        let name = name.strip_prefix(b"@").unwrap_or(name);
        let same = |text: &str| {
            text.as_bytes()
                .get(1..)
                .is_some_and(|known| known.eq_ignore_ascii_case(name))
        };
        Categories::ALL
            .iter()
            .find(|(_, text)| same(text))
            .map(|(category, _)| *category)
    }
}

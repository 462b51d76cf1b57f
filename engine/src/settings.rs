//! New values of the server's options, checked and not yet in force.
//!
//! The options are the server's: what they are called, which texts are values, and what a value does. To a node they are
//! names and texts. `CONFIG SET` has the server check what a client asks for
//! ([`Facts::check_settings`](crate::Facts::check_settings)), which changes nothing; what comes of it is a value of this type,
//! and a [`Deed`](crate::Deed) that carries it out cannot fail any more.

/// Options with the values that they are to have, each name once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes(Vec<(&'static str, String)>);

impl Changes {
    /// Options by their names as `CONFIG GET` shows them, with their values as it will show them.
    pub fn new(pairs: Vec<(&'static str, String)>) -> Self {
        Changes(pairs)
    }

    /// Names and values, in the order in which they were given.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.0.iter().map(|(name, value)| (*name, value.as_str()))
    }

    /// The value that the option called `name` is to have.
    pub fn value(&self, name: &str) -> Option<&str> {
        self.iter()
            .find(|(known, _)| *known == name)
            .map(|(_, value)| value)
    }

    /// Whether nothing is to change.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

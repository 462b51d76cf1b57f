//! The options of a running server: what they are, what they may become, and what has become of them since the start.
//!
//! ```text
//!   CONFIG SET ─▶ check: names, values, what contradicts what ─┬─ refused: nothing has changed
//!                 (on a copy, by the rows that the start uses)  └─ Changes ─▶ apply ─▶ the parts that have a value of their own
//! ```
//!
//! Checking and applying are apart because a command may still have to wait, and because a transaction is decided as a whole
//! before any of it happens; what earlier commands of the same transaction ask for is on the copy too.
//!
//! Whoever needs an option looks it up when it matters ([`SharedOptions`]), or is told by
//! [`Core::configure`](crate::core::Core::configure). Which of the two is said there.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::rc::Rc;

use idem_engine::{Changes, Deed};
use idem_protocol::command::errors::Text;

use super::absent::absent;
use super::options::Options;
use super::rewrite::rewrite;
use super::settings::{fact, settings};
use super::table::{OptionRow, option};
use super::{ConfigError, check};

/// A value of more bytes than this is none of any option.
const VALUE_BYTES_MAX: usize = 4096;

/// Bytes of a client's name for an option that an error repeats.
const NAME_BYTES_SHOWN: usize = 128;

/// The options as they are now, for the tasks of a shard. A clone looks at the same ones.
#[derive(Clone, Debug)]
pub struct SharedOptions(Rc<RefCell<Rc<Options>>>);

impl SharedOptions {
    fn new(options: Rc<Options>) -> SharedOptions {
        SharedOptions(Rc::new(RefCell::new(options)))
    }

    /// All of them, as of now.
    pub fn get(&self) -> Rc<Options> {
        Rc::clone(&self.0.borrow())
    }

    /// Whether they are still those that were got before: cheap enough to be asked for each command.
    pub fn are(&self, options: &Rc<Options>) -> bool {
        Rc::ptr_eq(&self.0.borrow(), options)
    }

    fn replace(&self, options: Rc<Options>) {
        *self.0.borrow_mut() = options;
    }
}

/// See the module.
#[derive(Debug)]
pub struct Configuration {
    options: Rc<Options>,
    shared: SharedOptions,
    /// What CONFIG GET shows of them.
    shown: Vec<(&'static str, String)>,
    /// The file of `--config`.
    file: Option<PathBuf>,
    /// Changed since the start.
    changed: BTreeSet<&'static str>,
}

impl Configuration {
    /// The options of a start, and the file that some of them came from.
    pub fn new(options: Options, file: Option<PathBuf>) -> Configuration {
        let options = Rc::new(options);
        Configuration {
            shown: settings(&options),
            shared: SharedOptions::new(Rc::clone(&options)),
            options,
            file,
            changed: BTreeSet::new(),
        }
    }

    /// The options as they are.
    pub fn options(&self) -> &Rc<Options> {
        &self.options
    }

    /// The same for whoever does not hold the core.
    pub fn shared(&self) -> SharedOptions {
        self.shared.clone()
    }

    /// Names and values as CONFIG GET shows them.
    pub fn shown(&self) -> &[(&'static str, String)] {
        &self.shown
    }

    /// The configuration file, empty for none.
    pub fn file_name(&self) -> String {
        let path = self.file.as_ref().map(|path| path.display().to_string());
        path.unwrap_or_default()
    }

    /// What CONFIG SET with these names and values would change, once `earlier` has been carried out. `machine` says why
    /// options are not possible on this machine, when they are not.
    ///
    /// # Errors
    /// The client's text, naming the argument that is to blame where it is one.
    pub fn check(
        &self,
        earlier: &[Deed],
        pairs: &[(&[u8], &[u8])],
        machine: &dyn Fn(&Options) -> Option<String>,
    ) -> Result<Changes, Text> {
        let mut rows: Vec<(&OptionRow, &[u8])> = Vec::new();
        let mut facts = BTreeSet::new();
        for (name, value) in pairs {
            let typed = shown(name);
            let lower = std::str::from_utf8(name).unwrap_or_default().to_ascii_lowercase();
            if let Some(row) = option(&lower) {
                if rows.iter().any(|(known, _)| known.name == row.name) {
                    return Err(failed(&typed, "duplicate parameter"));
                }
                if !row.at_run_time {
                    return Err(failed(&typed, "can't set immutable config"));
                }
                rows.push((row, value));
            } else if let Some((name, is)) = fact(&lower) {
                if !facts.insert(name) {
                    return Err(failed(&typed, "duplicate parameter"));
                }
                // What is so may be asked for; nothing else can be promised.
                if is.as_bytes() != *value {
                    return Err(failed(&typed, "can't set immutable config"));
                }
            } else if let Some(feature) = absent(&lower) {
                return Err(failed(&typed, &format!("this version does not have {feature}")));
            } else {
                return Err(
                    format!("ERR Unknown option or number of arguments for CONFIG SET - '{typed}'").into(),
                );
            }
        }
        let mut options = self.options_after(earlier);
        for (row, value) in &rows {
            set(&mut options, row, value).map_err(|reason| failed(row.name, &reason))?;
        }
        let contradiction = check(&options).err().map(|ConfigError(reason)| reason);
        if let Some(reason) = contradiction.or_else(|| machine(&options))
            && let Some((first, _)) = rows.first()
        {
            // Such a sentence names its options.
            let named = rows.iter().find(|(row, _)| reason.contains(row.name));
            return Err(failed(named.map_or(first.name, |(row, _)| row.name), &reason));
        }
        Ok(Changes::new(
            rows.iter()
                .map(|(row, _)| (row.name, (row.get)(&options)))
                .collect(),
        ))
    }

    /// The options are what `changes` says from now on. Answers what they were.
    ///
    /// # Panics
    /// When [`Configuration::check`] did not answer these changes.
    pub fn apply(&mut self, changes: &Changes) -> Rc<Options> {
        let mut options = Options::clone(&self.options);
        apply(&mut options, changes);
        let options = Rc::new(options);
        self.changed.extend(changes.iter().map(|(name, _)| name));
        self.shown = settings(&options);
        self.shared.replace(Rc::clone(&options));
        std::mem::replace(&mut self.options, options)
    }

    /// Writes into the configuration file what was changed since the start, `earlier` included.
    ///
    /// # Errors
    /// The client's text; the file is as it was then.
    pub fn rewrite(&self, earlier: &[Deed]) -> Result<(), Text> {
        let Some(path) = &self.file else {
            return Err("ERR The server is running without a config file".into());
        };
        let mut changed = self.changed.clone();
        changed.extend(configured(earlier).flat_map(Changes::iter).map(|(name, _)| name));
        let options = self.options_after(earlier);
        let rows: Vec<&OptionRow> = changed.into_iter().filter_map(option).collect();
        rewrite(path, &rows, &options).map_err(|reason| format!("ERR Rewriting config file: {reason}").into())
    }

    fn options_after(&self, earlier: &[Deed]) -> Options {
        let mut options = Options::clone(&self.options);
        configured(earlier).for_each(|changes| apply(&mut options, changes));
        options
    }
}

fn configured(deeds: &[Deed]) -> impl Iterator<Item = &Changes> {
    deeds.iter().filter_map(|deed| match deed {
        Deed::Configure(changes) => Some(changes),
        _ => None,
    })
}

fn apply(options: &mut Options, changes: &Changes) {
    for (name, value) in changes.iter() {
        let row = option(name).expect("changes are named as their rows are");
        (row.set)(options, value).expect("what a row shows, it takes");
    }
}

fn set(options: &mut Options, row: &OptionRow, value: &[u8]) -> Result<(), String> {
    if value.len() > VALUE_BYTES_MAX {
        return Err(format!("a value has {VALUE_BYTES_MAX} bytes at most"));
    }
    let text = std::str::from_utf8(value).map_err(|_| "the value is not UTF-8".to_owned())?;
    (row.set)(options, text)
}

fn failed(name: &str, reason: &str) -> Text {
    format!("ERR CONFIG SET failed (possibly related to argument '{name}') - {reason}").into()
}

/// A client's bytes in an error text, cut.
fn shown(bytes: &[u8]) -> String {
    let cut = bytes.get(..NAME_BYTES_SHOWN).unwrap_or(bytes);
    String::from_utf8_lossy(cut).into_owned()
}

//! The configuration file: TOML, `option = value` lines with the names of the command line.
//!
//! Values may be strings, whole numbers, or true and false for yes and no; each goes through the very setter that the
//! flag goes through. Tables have no meaning and are refused: a setting under a forgotten `[section]` would otherwise
//! be one that silently is not set.

use std::path::Path;

use toml_edit::{Document, Item, Value};

use super::ConfigError;
use super::absent::absent;
use super::options::Options;
use super::table::option;

/// Reads `path` and sets in `options` what it says.
///
/// # Errors
/// The file cannot be read, is no TOML, or holds an unknown, absent, doubled or invalid option; the message names file,
/// line and option.
pub fn load_file(path: &Path, options: &mut Options) -> Result<(), ConfigError> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| ConfigError::new(format!("--config: {}: {error}", path.display())))?;
    apply_text(&path.display().to_string(), &text, options)
}

/// [`load_file`] on the text of a file called `name`.
///
/// # Errors
/// As [`load_file`], without the reading.
pub fn apply_text(name: &str, text: &str, options: &mut Options) -> Result<(), ConfigError> {
    let document = Document::parse(text)
        .map_err(|error| ConfigError::new(format!("{name}: not TOML: {}", error.to_string().trim_end())))?;
    for (key, item) in document.as_table().iter() {
        let line = document
            .as_table()
            .key(key)
            .and_then(toml_edit::Key::span)
            .map_or(1, |span| line_of(text, span.start));
        let here = |what: String| ConfigError::new(format!("{name}:{line}: {key}: {what}"));
        if let Some(feature) = absent(key) {
            return Err(here(format!(
                "this version does not have {feature}; remove the option"
            )));
        }
        let row = option(key).ok_or_else(|| here("unknown option".to_owned()))?;
        let value = value_text(item)
            .ok_or_else(|| here("the value has to be a string, a whole number, true or false".to_owned()))?;
        (row.set)(options, &value).map_err(here)?;
    }
    Ok(())
}

/// The text that would follow the flag for this value.
fn value_text(item: &Item) -> Option<String> {
    match item.as_value()? {
        Value::String(text) => Some(text.value().clone()),
        Value::Integer(number) => Some(number.value().to_string()),
        Value::Boolean(yes) => Some(if *yes.value() { "yes" } else { "no" }.to_owned()),
        Value::Float(_) | Value::Datetime(_) | Value::Array(_) | Value::InlineTable(_) => None,
    }
}

fn line_of(text: &str, offset: usize) -> usize {
    text.as_bytes()
        .iter()
        .take(offset)
        .filter(|byte| **byte == b'\n')
        .count()
        + 1
}

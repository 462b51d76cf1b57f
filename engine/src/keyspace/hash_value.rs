//! The value of a hash: packed while it is small, a partitioned table when it is not.
//!
//! Small: `field length u32 | field | value length u32 | value` one after the other in one allocation, searched from the
//! front. Large: the same table as a keyspace's, so that a hash of any size grows in bounded steps. A hash that has
//! become large stays so until it is gone.

use std::mem::size_of;

use super::hasher::KeyHasher;
use super::memory::held;
use super::table::{Hashed, Table};

/// A hash with more fields than this is a table …
const SMALL_FIELDS_MAX: usize = 64;
/// … and one with more bytes, lengths included, too.
const SMALL_BYTES_MAX: usize = 2048;
const LENGTH_BYTES: usize = 4;

/// Fields and values of a hash.
#[derive(Debug)]
pub struct HashValue(Fields);

#[derive(Debug)]
enum Fields {
    Small { bytes: Vec<u8>, count: usize },
    Large(Box<Large>),
}

#[derive(Debug)]
struct Large {
    fields: Table<Field>,
    hasher: KeyHasher,
    field_bytes: usize,
}

/// A field of a large hash: `hash 8 | field length 4 | field | value`.
#[derive(Debug)]
pub(super) struct Field(Box<[u8]>);

const FIELD_HEADER_BYTES: usize = 12;

/// A part of a hash, for writing it piece by piece.
pub(crate) struct HashPart<'a> {
    /// Fields and values; may be none.
    pub(crate) fields: Vec<(&'a [u8], &'a [u8])>,
    /// Where the next part begins; `None` when this was the last.
    pub(crate) next: Option<u64>,
}

impl HashValue {
    pub(super) fn new() -> Self {
        Self(Fields::Small {
            bytes: Vec::new(),
            count: 0,
        })
    }

    /// The number of fields.
    pub fn len(&self) -> usize {
        match &self.0 {
            Fields::Small { count, .. } => *count,
            Fields::Large(large) => large.fields.len(),
        }
    }

    /// True only inside of a change: a hash in a keyspace has at least one field.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The value of a field.
    pub fn get(&self, field: &[u8]) -> Option<&[u8]> {
        match &self.0 {
            Fields::Small { bytes, .. } => SmallIter::new(bytes)
                .find(|(name, _)| *name == field)
                .map(|(_, value)| value),
            Fields::Large(large) => {
                let hash = large.hasher.hash(field);
                large
                    .fields
                    .find(hash, |other| other.name() == field)
                    .map(Field::value)
            }
        }
    }

    /// All fields and values; in the order of arrival while the hash is small, in no order when it is large.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let (small, large) = match &self.0 {
            Fields::Small { bytes, .. } => (Some(SmallIter::new(bytes)), None),
            Fields::Large(large) => (
                None,
                Some(large.fields.iter().map(|field| (field.name(), field.value()))),
            ),
        };
        small.into_iter().flatten().chain(large.into_iter().flatten())
    }

    /// Sets a field; large hashes use `hasher` from their beginning on.
    pub(super) fn set(&mut self, field: &[u8], value: &[u8], hasher: &KeyHasher) {
        match &mut self.0 {
            Fields::Small { bytes, count } => {
                let old = small_range(bytes, field);
                let kept = bytes.len() - old.as_ref().map_or(0, |range| range.len());
                let wanted = kept
                    .saturating_add(2 * LENGTH_BYTES)
                    .saturating_add(field.len())
                    .saturating_add(value.len());
                let added = usize::from(old.is_none());
                if *count + added > SMALL_FIELDS_MAX || wanted > SMALL_BYTES_MAX {
                    self.enlarge(hasher);
                    self.set(field, value, hasher);
                    return;
                }
                let at = old.as_ref().map_or(bytes.len(), |range| range.start);
                let mut packed = Vec::with_capacity(wanted - kept);
                push_string(&mut packed, field);
                push_string(&mut packed, value);
                bytes.splice(old.unwrap_or(at..at), packed);
                *count += added;
            }
            Fields::Large(large) => large.set(field, value),
        }
    }

    /// Removes a field; true when it was there.
    pub(super) fn remove(&mut self, field: &[u8]) -> bool {
        match &mut self.0 {
            Fields::Small { bytes, count } => {
                let Some(range) = small_range(bytes, field) else {
                    return false;
                };
                bytes.drain(range);
                if bytes.len() < bytes.capacity() / 4 {
                    bytes.shrink_to(bytes.len() * 2);
                }
                *count -= 1;
                true
            }
            Fields::Large(large) => {
                let hash = large.hasher.hash(field);
                let removed = large.fields.remove(hash, |other| other.name() == field);
                large.field_bytes -= removed.as_ref().map_or(0, |field| held(field.0.len()));
                removed.is_some()
            }
        }
    }

    /// Is it a table, which has to be walked and freed piece by piece?
    pub(crate) fn is_large(&self) -> bool {
        matches!(self.0, Fields::Large(_))
    }

    /// Fields from a position in their hash order on (0 = the beginning): about `max_bytes` of them, at least one if there
    /// is one in reach, and all of those with equal hashes. A small hash is one part.
    pub(crate) fn part(&self, from: u64, max_bytes: usize) -> HashPart<'_> {
        self.part_of(from, usize::MAX, max_bytes)
    }

    /// The same with a bound on the number of fields, too.
    pub(crate) fn part_of(&self, from: u64, max_fields: usize, max_bytes: usize) -> HashPart<'_> {
        let Fields::Large(large) = &self.0 else {
            return HashPart {
                fields: self.iter().collect(),
                next: None,
            };
        };
        let ordered = large.fields.ordered(from);
        let mut fields = Vec::new();
        let mut bytes = 0_usize;
        for group in ordered.entries.chunk_by(|a, b| a.hash() == b.hash()) {
            bytes = group
                .iter()
                .fold(bytes, |bytes, field| bytes.saturating_add(field.0.len()));
            if (bytes > max_bytes || fields.len() >= max_fields) && !fields.is_empty() {
                return HashPart {
                    fields,
                    next: Some(group[0].hash()),
                };
            }
            fields.extend(group.iter().map(|field| (field.name(), field.value())));
        }
        HashPart {
            fields,
            next: ordered.next,
        }
    }

    pub(super) fn into_large(self) -> Option<Table<Field>> {
        match self.0 {
            Fields::Small { .. } => None,
            Fields::Large(large) => Some(large.fields),
        }
    }

    /// Bytes allocated behind this value.
    pub(super) fn heap_bytes(&self) -> usize {
        match &self.0 {
            Fields::Small { bytes, .. } => held(bytes.capacity()),
            Fields::Large(large) => size_of::<Large>() + large.fields.memory_bytes() + large.field_bytes,
        }
    }

    fn enlarge(&mut self, hasher: &KeyHasher) {
        let mut large = Large {
            fields: Table::default(),
            hasher: hasher.clone(),
            field_bytes: 0,
        };
        self.iter().for_each(|(field, value)| large.set(field, value));
        self.0 = Fields::Large(Box::new(large));
    }
}

impl Large {
    fn set(&mut self, name: &[u8], value: &[u8]) {
        let hash = self.hasher.hash(name);
        let field = Field::new(hash, name, value);
        self.field_bytes += held(field.0.len());
        match self.fields.find_mut(hash, |other| other.name() == name) {
            Some(old) => {
                self.field_bytes -= held(old.0.len());
                *old = field;
            }
            None => self.fields.insert(field),
        }
    }
}

impl Field {
    fn new(hash: u64, name: &[u8], value: &[u8]) -> Self {
        let mut bytes = Vec::with_capacity(FIELD_HEADER_BYTES + name.len() + value.len());
        bytes.extend_from_slice(&hash.to_ne_bytes());
        push_string(&mut bytes, name);
        bytes.extend_from_slice(value);
        Self(bytes.into_boxed_slice())
    }

    pub(super) fn name(&self) -> &[u8] {
        &self.0[FIELD_HEADER_BYTES..self.value_at()]
    }

    pub(super) fn value(&self) -> &[u8] {
        &self.0[self.value_at()..]
    }

    fn value_at(&self) -> usize {
        let length = self.0[8..].first_chunk().expect("a field has its whole header");
        FIELD_HEADER_BYTES + u32::from_ne_bytes(*length) as usize
    }
}

impl Hashed for Field {
    fn hash(&self) -> u64 {
        let hash = u64::from_ne_bytes(*self.0.first_chunk().expect("a field has its whole header"));
        hash >> 32 << 32
    }
}

fn push_string(out: &mut Vec<u8>, string: &[u8]) {
    let length = u32::try_from(string.len()).expect("a string fits one record, which is at most 512 MiB");
    out.extend_from_slice(&length.to_ne_bytes());
    out.extend_from_slice(string);
}

/// Where a field with its value stands in a small hash.
fn small_range(bytes: &[u8], field: &[u8]) -> Option<std::ops::Range<usize>> {
    let mut start = 0;
    for (name, value) in SmallIter::new(bytes) {
        let end = start + 2 * LENGTH_BYTES + name.len() + value.len();
        if name == field {
            return Some(start..end);
        }
        start = end;
    }
    None
}

struct SmallIter<'a>(&'a [u8]);

impl<'a> SmallIter<'a> {
    fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    fn string(&mut self) -> Option<&'a [u8]> {
        let (length, rest) = self.0.split_first_chunk()?;
        let (string, rest) = rest.split_at_checked(u32::from_ne_bytes(*length) as usize)?;
        self.0 = rest;
        Some(string)
    }
}

impl<'a> Iterator for SmallIter<'a> {
    type Item = (&'a [u8], &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        Some((self.string()?, self.string()?))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// A small hash, one that grows large by fields, and one by bytes behave as a map does.
    #[test]
    fn behaves_as_a_map() {
        for (fields, value_bytes) in [(3_u32, 5_usize), (200, 5), (20, 400), (3000, 1)] {
            let hasher = KeyHasher::seeded([1, 2, 3, 4]);
            let mut value = HashValue::new();
            let mut model = BTreeMap::new();
            for step in 0..fields * 5 {
                let name = format!("field-{}", step * 7919 % fields).into_bytes();
                if step % 5 == 4 {
                    assert_eq!(value.remove(&name), model.remove(&name).is_some());
                } else {
                    let content = vec![u8::try_from(step % 251).unwrap(); value_bytes + step as usize % 3];
                    value.set(&name, &content, &hasher);
                    model.insert(name.clone(), content);
                }
                assert_eq!(value.get(&name), model.get(&name).map(Vec::as_slice));
            }
            let content: BTreeMap<_, _> = value
                .iter()
                .map(|(name, value)| (name.to_vec(), value.to_vec()))
                .collect();
            assert_eq!(content, model);
            assert_eq!(value.len(), model.len());
            for name in model.keys() {
                assert!(value.remove(name));
            }
            assert!(value.is_empty());
            assert_eq!(value.iter().count(), 0);
        }
    }
}

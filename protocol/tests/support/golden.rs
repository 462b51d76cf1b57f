//! The golden vectors of `testdata/*.hex`.
//!
//! A file holds vectors, each a line `[name] N bytes` followed by lines `offset | bytes | comment`; `00 * N` stands for
//! N zeros. Offsets are checked, so that a line that was edited without its followers is noticed.

use std::path::Path;

/// One vector: its name within the file, and its bytes.
pub struct Vector {
    pub name: String,
    pub bytes: Vec<u8>,
}

/// All vectors of `testdata/FILE.hex`, in order.
pub fn load(file: &str) -> Vec<Vector> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("testdata")
        .join(format!("{file}.hex"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    parse(&text).unwrap_or_else(|(line, what)| panic!("{}:{line}: {what}", path.display()))
}

/// The bytes of one vector.
pub fn bytes(file: &str, name: &str) -> Vec<u8> {
    let found = load(file).into_iter().find(|vector| vector.name == name);
    found
        .unwrap_or_else(|| panic!("{file}.hex has no vector [{name}]"))
        .bytes
}

/// Reads the text of a file; an error is a line number and what is wrong there.
pub fn parse(text: &str) -> Result<Vec<Vector>, (usize, String)> {
    let mut vectors: Vec<(Vector, usize)> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let fail = |what: &str| (index + 1, what.to_owned());
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(title) = line.strip_prefix('[') {
            let (name, size) = title
                .split_once("] ")
                .ok_or_else(|| fail("no `[name] N bytes`"))?;
            let size = size.strip_suffix(" bytes").and_then(|size| size.parse().ok());
            let vector = Vector {
                name: name.to_owned(),
                bytes: Vec::new(),
            };
            vectors.push((vector, size.ok_or_else(|| fail("no `N bytes`"))?));
            continue;
        }
        let mut columns = line.splitn(3, " | ");
        let (Some(offset), Some(bytes), Some(_)) = (columns.next(), columns.next(), columns.next()) else {
            return Err(fail("no `offset | bytes | comment`"));
        };
        let (vector, _) = vectors
            .last_mut()
            .ok_or_else(|| fail("bytes before the first [name]"))?;
        if usize::from_str_radix(offset, 16) != Ok(vector.bytes.len()) {
            return Err(fail("the offset is not where the line before ended"));
        }
        if let Some(zeros) = bytes.strip_prefix("00 * ") {
            let zeros: usize = zeros.parse().map_err(|_| fail("no number after `00 *`"))?;
            vector.bytes.resize(vector.bytes.len() + zeros, 0);
            continue;
        }
        for pair in bytes.split(' ') {
            let byte = u8::from_str_radix(pair, 16).ok().filter(|_| pair.len() == 2);
            vector
                .bytes
                .push(byte.ok_or_else(|| fail("no pair of hex digits"))?);
        }
    }
    let wrong = vectors.iter().find(|(vector, size)| vector.bytes.len() != *size);
    match wrong {
        Some((vector, size)) => Err((
            0,
            format!("[{}] has {} bytes, not {size}", vector.name, vector.bytes.len()),
        )),
        None => Ok(vectors.into_iter().map(|(vector, _)| vector).collect()),
    }
}

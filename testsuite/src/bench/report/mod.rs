//! What a run found, as Markdown: read in a terminal and in `docs/benchmarks.md` alike.

pub mod phases;
mod table;

use std::fmt::Write;

use super::Results;

/// The middle one; of an even number the mean of the two in the middle. `None` of nothing.
pub(crate) fn median(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        odd if odd % 2 == 1 => Some(values[middle]),
        _ => Some(f64::midpoint(values[middle - 1], values[middle])),
    }
}

/// The whole report.
pub fn render(results: &Results) -> String {
    let mut text = String::new();
    for part in [phases::render(&results.runs)] {
        write!(text, "{part}").expect("a string takes every write");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::median;

    #[test]
    fn the_middle() {
        for (values, expected) in [
            (vec![], None),
            (vec![3.0], Some(3.0)),
            (vec![9.0, 1.0, 2.0], Some(2.0)),
            (vec![4.0, 1.0, 2.0, 3.0], Some(2.5)),
        ] {
            assert_eq!(median(values), expected);
        }
    }
}

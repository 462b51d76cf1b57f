//! What a run found, as Markdown: read in a terminal and in `docs/benchmarks.md` alike.

pub mod docs;
pub mod phases;
mod single;
mod table;
pub mod targets;

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

/// A number with so many digits; a dash for a ratio of nothing.
fn digits(value: f64, digits: usize) -> String {
    if value.is_finite() {
        format!("{value:.digits$}")
    } else {
        "–".to_owned()
    }
}

/// The whole report: where and with what, what was found, what had to be reached.
pub fn render(machine: &[(&'static str, String)], results: &Results) -> String {
    let targets = targets::render(&targets::all(results));
    let report = found(machine, results) + "### What has to be reached\n\n" + &targets;
    report.trim_end().to_owned() + "\n"
}

/// The report of a run that is too short for numbers: they are shown, because that they come about is what was asked, and
/// nothing is said about how good they are.
pub fn check_of_the_tool(machine: &[(&'static str, String)], results: &Results) -> String {
    let report = CHECK_OF_THE_TOOL.to_owned() + &found(machine, results);
    report.trim_end().to_owned() + "\n"
}

const CHECK_OF_THE_TOOL: &str = "\
**A check of the tool: every part of the benchmark works.** So few operations were measured that the numbers below mean
nothing, and none of them is judged.

";

/// Where and with what, and what was found.
fn found(machine: &[(&'static str, String)], results: &Results) -> String {
    let machine = machine.iter().map(|(what, text)| format!("* {what}: {text}\n"));
    [
        machine.collect::<String>() + "\n",
        phases::render(&results.runs),
        single::latencies(&results.latencies),
        single::inserts(&results.inserts),
        single::snapshots(&results.snapshots),
    ]
    .concat()
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

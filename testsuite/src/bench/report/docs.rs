//! The page `docs/benchmarks.md`: its results stand between two marks, and a run writes them anew.

use std::path::Path;

use crate::bench::Failure;

/// Before the results.
const BEGIN: &str = "<!-- results: written by `cargo xtask bench --write-docs` -->";

/// Behind them.
const END: &str = "<!-- end of results -->";

/// Puts a report between the marks of a file.
pub fn write(path: &Path, report: &str) -> Result<(), Failure> {
    let page = std::fs::read_to_string(path).map_err(Failure::io(path.display()))?;
    let page = replaced(&page, report)
        .ok_or_else(|| Failure::new(format!("{} has not `{BEGIN}` and then `{END}`", path.display())))?;
    std::fs::write(path, page).map_err(Failure::io(path.display()))
}

fn replaced(page: &str, report: &str) -> Option<String> {
    let (before, rest) = page.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{BEGIN}\n\n{}\n\n{END}{after}", report.trim()))
}

#[cfg(test)]
mod tests {
    use super::{BEGIN, END, replaced};

    #[test]
    fn only_what_is_between_the_marks_changes() {
        let page = format!("# Title\n\n{BEGIN}\nold\n{END}\n\nThe end.\n");
        let new = replaced(&page, "new\n").unwrap();
        assert_eq!(new, format!("# Title\n\n{BEGIN}\n\nnew\n\n{END}\n\nThe end.\n"));
        assert_eq!(
            replaced(&new, "new").as_deref(),
            Some(new.as_str()),
            "twice is once"
        );
        assert_eq!(replaced("no marks", "new"), None);
    }
}

//! A Markdown table whose columns line up, so that it can be read without being rendered.

/// Lines with a header; the first column is text, the others are numbers and stand to the right.
pub(super) fn table<const N: usize>(header: [&str; N], rows: &[[String; N]]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells
            .chain([header[column].chars().count(), 3])
            .max()
            .unwrap_or(3)
    };
    let widths: [usize; N] = std::array::from_fn(width);
    let line = |cells: [&str; N]| {
        let cells = cells
            .iter()
            .zip(widths)
            .enumerate()
            .map(|(column, (cell, width))| {
                if column == 0 {
                    format!("{cell:<width$}")
                } else {
                    format!("{cell:>width$}")
                }
            });
        format!("| {} |\n", cells.collect::<Vec<_>>().join(" | "))
    };
    let rule = widths.iter().enumerate().map(|(column, width)| {
        let dashes = "-".repeat(width - 1);
        if column == 0 {
            format!("{dashes}-")
        } else {
            format!("{dashes}:")
        }
    });
    let mut text = line(header);
    text += &format!("| {} |\n", rule.collect::<Vec<_>>().join(" | "));
    for row in rows {
        text += &line(row.each_ref().map(String::as_str));
    }
    text + "\n"
}

#[cfg(test)]
mod tests {
    use super::table;

    #[test]
    fn columns_line_up() {
        let rows = [
            ["begin".to_owned(), "1".to_owned()],
            ["µs".to_owned(), "12345".to_owned()],
        ];
        assert_eq!(
            table(["what", "n"], &rows),
            "| what  |     n |\n| ----- | ----: |\n| begin |     1 |\n| µs    | 12345 |\n\n"
        );
    }
}

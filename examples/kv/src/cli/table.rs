//! Tables for people: boxes as etcdctl draws them, and Markdown.

use std::fmt::Write;

/// Where the text of a column stands.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Align {
    Left,
    Right,
}

/// Rows of the same length as the header.
pub(crate) struct Table {
    header: Vec<(String, Align)>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new<const N: usize>(header: [(&str, Align); N]) -> Self {
        let header = header.map(|(title, align)| (title.to_owned(), align)).to_vec();
        Self { header, rows: Vec::new() }
    }

    pub(crate) fn row<const N: usize>(&mut self, cells: [String; N]) {
        assert_eq!(N, self.header.len(), "a cell for each column");
        self.rows.push(cells.to_vec());
    }

    /// With a frame of `+`, `-` and `|`.
    pub(crate) fn boxed(&self) -> String {
        let widths = self.widths();
        let dashes: Vec<String> = widths.iter().map(|&width| "-".repeat(width + 2)).collect();
        let rule = format!("+{}+\n", dashes.join("+"));
        let titles: Vec<String> = self.header.iter().map(|(title, _)| title.clone()).collect();
        let mut text = rule.clone();
        self.line(&mut text, &titles, &widths);
        text.push_str(&rule);
        for row in &self.rows {
            self.line(&mut text, row, &widths);
        }
        if !self.rows.is_empty() {
            text.push_str(&rule);
        }
        text
    }

    /// As Markdown.
    pub(crate) fn markdown(&self) -> String {
        let widths = self.widths();
        let titles: Vec<String> = self.header.iter().map(|(title, _)| title.clone()).collect();
        let rules: Vec<String> = self.header.iter().zip(&widths).map(rule).collect();
        let mut text = String::new();
        for row in [&titles, &rules].into_iter().chain(&self.rows) {
            self.line(&mut text, row, &widths);
        }
        text
    }

    fn widths(&self) -> Vec<usize> {
        let width = |text: &String| text.chars().count();
        let column = |at: usize| self.rows.iter().map(move |row| width(&row[at])).max();
        self.header
            .iter()
            .enumerate()
            .map(|(at, (title, _))| width(title).max(column(at).unwrap_or(0)).max(3))
            .collect()
    }

    fn line(&self, text: &mut String, cells: &[String], widths: &[usize]) {
        for ((cell, &width), (_, align)) in cells.iter().zip(widths).zip(&self.header) {
            // Writing to a String cannot fail.
            let _ = match align {
                Align::Left => write!(text, "| {cell:<width$} "),
                Align::Right => write!(text, "| {cell:>width$} "),
            };
        }
        text.push_str("|\n");
    }
}

fn rule(((_, align), &width): (&(String, Align), &usize)) -> String {
    match align {
        Align::Left => "-".repeat(width),
        Align::Right => format!("{}:", "-".repeat(width - 1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let mut table = Table::new([("NAME", Align::Left), ("N", Align::Right)]);
        table.row(["a".to_owned(), "1000".to_owned()]);
        table.row(["longer".to_owned(), "7".to_owned()]);
        assert_eq!(
            table.boxed(),
            "+--------+------+\n\
             | NAME   |    N |\n\
             +--------+------+\n\
             | a      | 1000 |\n\
             | longer |    7 |\n\
             +--------+------+\n"
        );
        assert_eq!(
            table.markdown(),
            "| NAME   |    N |\n\
             | ------ | ---: |\n\
             | a      | 1000 |\n\
             | longer |    7 |\n"
        );
    }
}

//! [`Columns`]: rows of text in aligned columns, as kubectl prints them.

use keel::escape_controls;

/// The minimum width of a column.
const MIN_WIDTH: usize = 6;
/// The number of spaces after the widest cell of a column.
const PADDING: usize = 3;

/// Aligns rows. The widths of former rows are remembered, for rows that are printed later.
#[derive(Debug)]
pub(crate) struct Columns {
    widths: Vec<usize>,
    rows: Vec<Vec<String>>,
    min_width: usize,
    padding: usize,
}

impl Default for Columns {
    fn default() -> Self {
        Self { widths: Vec::new(), rows: Vec::new(), min_width: MIN_WIDTH, padding: PADDING }
    }
}

impl Columns {
    /// Adds a row. Control characters of its cells are escaped, since they may have text of the server.
    pub(crate) fn push(&mut self, row: Vec<String>) {
        self.rows.push(row.into_iter().map(|cell| escape_controls(&cell).into_owned()).collect());
    }

    /// The rows that were added since the last call, a line for each.
    pub(crate) fn take_text(&mut self) -> String {
        for row in &self.rows {
            // A cell is in a column if another one follows.
            for (column, cell) in row.iter().enumerate().take(row.len().saturating_sub(1)) {
                let width = (cell.chars().count() + self.padding).max(self.min_width);
                match self.widths.get_mut(column) {
                    Some(known) => *known = width.max(*known),
                    None => self.widths.push(width),
                }
            }
        }
        let mut text = String::new();
        for row in self.rows.drain(..) {
            let last = row.len().saturating_sub(1);
            for (column, cell) in row.into_iter().enumerate() {
                text.push_str(&cell);
                if column < last {
                    let missing = self.widths[column].saturating_sub(cell.chars().count());
                    text.extend(std::iter::repeat_n(' ', missing));
                }
            }
            text.push('\n');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(columns: &mut Columns, rows: &[&[&str]], expected: &str) {
        for row in rows {
            columns.push(row.iter().map(|it| (*it).to_owned()).collect());
        }
        assert_eq!(columns.take_text(), expected);
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell_and_stay_so() {
        let mut columns = Columns::default();
        check(
            &mut columns,
            &[&["NAME", "A"], &["a", ""], &["someone", "b"]],
            "NAME      A\na         \nsomeone   b\n",
        );
        check(&mut columns, &[&["b", "c"]], "b         c\n");
        check(&mut Columns::default(), &[&["A", "B"]], "A     B\n");
    }

    #[test]
    fn control_characters_of_a_cell_become_visible() {
        check(&mut Columns::default(), &[&["a\u{1b}[2Jb", "\u{7}"]], "a^[[2Jb   ^G\n");
    }
}

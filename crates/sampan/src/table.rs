//! [`aligned`]: rows of text in columns, as kubectl prints them.

use keel::escape_controls;

/// The minimum width of a column.
const MIN_WIDTH: usize = 6;
/// The number of spaces after the widest cell of a column.
const PADDING: usize = 3;

/// Aligns the columns of rows that have the same number of cells; a line for each row. Control characters
/// of cells are escaped, since they may have text of the server.
pub(crate) fn aligned(rows: &[Vec<String>]) -> String {
    let rows: Vec<Vec<String>> =
        rows.iter().map(|row| row.iter().map(|cell| one_line(cell)).collect()).collect();
    let columns = rows.first().map_or(0, Vec::len);
    let width = |column: usize| {
        let widths = rows.iter().filter_map(|row| row.get(column)).map(|it| it.chars().count());
        (widths.max().unwrap_or(0) + PADDING).max(MIN_WIDTH)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in &rows {
        for (column, cell) in row.iter().enumerate() {
            text.push_str(cell);
            if column + 1 < row.len() {
                let missing = widths[column].saturating_sub(cell.chars().count());
                text.extend(std::iter::repeat_n(' ', missing));
            }
        }
        text.push('\n');
    }
    text
}

/// A cell in one line, without control characters.
fn one_line(cell: &str) -> String {
    escape_controls(cell).replace('\n', "\\n").replace('\t', "\\t")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell_and_the_last_one_has_no_spaces() {
        let rows = [["NAME", "ROLE"], ["a", "view"], ["someone", ""]];
        let rows = rows.map(|row| row.map(str::to_owned).to_vec());
        assert_eq!(aligned(&rows), "NAME      ROLE\na         view\nsomeone   \n");
    }

    #[test]
    fn control_characters_of_a_cell_become_visible() {
        let rows = [["a\u{1b}[2J\nb".to_owned(), "c\td".to_owned()].to_vec()];
        assert_eq!(aligned(&rows), "a^[[2J\\nb   c\\td\n");
    }

    #[test]
    fn a_narrow_column_has_six_letters() {
        let rows = [["A".to_owned(), "B".to_owned()].to_vec()];
        assert_eq!(aligned(&rows), "A     B\n");
    }
}

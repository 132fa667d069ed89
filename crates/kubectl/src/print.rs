//! Printers: one for each form of `-o`.

pub(crate) mod columns;
pub(crate) mod table;
pub(crate) mod template;
pub(crate) mod custom_columns;
pub(crate) mod sort;
pub(crate) mod object;
pub(crate) mod format;

//! One file per command: its arguments, what it does, what it prints.

pub(crate) mod bench;
pub(crate) mod completion;
pub(crate) mod up;

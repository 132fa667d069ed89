//! The client verbs of kubectl, as a library.

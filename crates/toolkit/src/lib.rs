//! The toolkit: from an empty folder to a running operator.

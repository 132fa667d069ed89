//! The kinds of `events.k8s.io`: one, which the core group has as well.

pub mod event;

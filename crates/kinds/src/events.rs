//! The kind of `events.k8s.io`: Event, which is served in the core group as well.

pub mod event;

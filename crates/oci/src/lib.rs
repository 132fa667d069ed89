//! Builds OCI images from files, and pushes them to registries.

//! Properties of all stored built-in kinds, tested with the manifests of `minimal.yaml`.

mod case;
mod formats;
mod lifecycle;
mod updates;

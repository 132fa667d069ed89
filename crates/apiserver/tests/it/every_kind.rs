//! What holds for every built-in kind that is stored: each property is tried on all of them, with
//! the manifests of `minimal.yaml`.

mod case;
mod forms;
mod life;
mod updates;

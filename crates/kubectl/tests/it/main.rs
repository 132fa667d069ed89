//! The same command lines for the real kubectl and for this crate, each with a plane of its own:
//! standard output, standard error and exit codes must be the same.
//!
//! A table in `cases/` has a command line on each line:
//!
//! ```text
//! # a comment
//! get pods -o wide
//! create -f - << cat.yaml            standard input is a file of `fixtures/`
//! ! wait pod/web --for condition=…   only prepares the planes: kubectl runs it in both
//! ~ why the next line differs        the two must differ, so that the reason is still true
//! get pods --sort-by .missing
//! ```

#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

mod captured;
mod mask;
mod plane;
mod table;

use table::check;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn get_and_discovery_are_as_in_kubectl() {
    Box::pin(check(include_str!("cases/get.txt"))).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_are_as_in_kubectl() {
    Box::pin(check(include_str!("cases/change.txt"))).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rollouts_and_waits_are_as_in_kubectl() {
    Box::pin(check(include_str!("cases/rollout.txt"))).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn descriptions_are_as_in_kubectl() {
    Box::pin(check(include_str!("cases/describe.txt"))).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kubeconfigs_and_differences_are_as_in_kubectl() {
    Box::pin(check(include_str!("cases/config.txt"))).await;
}

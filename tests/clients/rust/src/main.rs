//! Tests the API server of `$KUBECONFIG` with the crates kube and kube-runtime in their default
//! configuration.
//!
//! Prints `ok NAME` or `FAIL NAME: reason` for each check, and fails if a check failed.

mod session;
mod typed;
mod custom;
mod apply;
mod dynamic;
mod watches;
mod controllers;

use std::process::ExitCode;

use session::Session;

#[tokio::main]
async fn main() -> anyhow::Result<ExitCode> {
    let mut session = Session::start().await?;
    typed::check(&mut session).await;
    custom::check(&mut session).await;
    apply::check(&mut session).await;
    dynamic::check(&mut session).await;
    watches::check(&mut session).await;
    controllers::check(&mut session).await;
    Ok(if session.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

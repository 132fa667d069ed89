//! The program `kubectl`, made of the library alone.

use std::process::ExitCode;

use kubectl::Io;

#[tokio::main]
async fn main() -> anyhow::Result<ExitCode> {
    kubectl::call(std::env::args().skip(1).collect(), &mut Io::standard()).await
}

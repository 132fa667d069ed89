//! [`Signals`]: the signals that end the process.

use super::ManagerError;

/// SIGINT and SIGTERM, unless signals are handled elsewhere.
pub(super) struct Signals {
    #[cfg(unix)]
    terminate: Option<tokio::signal::unix::Signal>,
    handled: bool,
}

impl Signals {
    pub(super) fn new(handled: bool) -> Result<Self, ManagerError> {
        #[cfg(unix)]
        let terminate = if handled {
            use tokio::signal::unix::{SignalKind, signal};
            Some(signal(SignalKind::terminate()).map_err(ManagerError::Signals)?)
        } else {
            None
        };
        Ok(Self {
            #[cfg(unix)]
            terminate,
            handled,
        })
    }

    pub(super) async fn wait(mut self) {
        if !self.handled {
            return std::future::pending().await;
        }
        #[cfg(unix)]
        let terminated = async {
            match &mut self.terminate {
                Some(terminate) => drop(terminate.recv().await),
                None => std::future::pending().await,
            }
        };
        #[cfg(not(unix))]
        let terminated = std::future::pending::<()>();
        tokio::select! {
            _ = tokio::signal::ctrl_c() => {}
            () = terminated => {}
        }
    }
}

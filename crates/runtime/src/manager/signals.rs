//! [`Signals`]: the signals that end the process.

use super::ManagerError;

/// SIGINT and SIGTERM. If they are not enabled, [`wait`](Self::wait) never ends.
pub(super) struct Signals {
    #[cfg(unix)]
    terminate: Option<tokio::signal::unix::Signal>,
    is_enabled: bool,
}

impl Signals {
    pub(super) fn new(is_enabled: bool) -> Result<Self, ManagerError> {
        #[cfg(unix)]
        let terminate = if is_enabled {
            use tokio::signal::unix::{SignalKind, signal};
            Some(signal(SignalKind::terminate()).map_err(ManagerError::Signals)?)
        } else {
            None
        };
        Ok(Self {
            #[cfg(unix)]
            terminate,
            is_enabled,
        })
    }

    pub(super) async fn wait(mut self) {
        if !self.is_enabled {
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

//! [`Operator`]: an operator in a thread of the test, which reaches the plane over the network.

use std::path::Path;
use std::thread::JoinHandle;
use std::time::Duration;

use runtime::client::config::Config;
use runtime::kube_client::config::Kubeconfig;
use runtime::{Manager, ManagerOptions, client};

/// See the [module documentation](self). It is stopped when dropped.
pub(crate) struct Operator {
    manager: Manager,
    thread: Option<JoinHandle<()>>,
}

impl Operator {
    /// Starts an operator with the rights of a service account in the namespace `operators`.
    pub(crate) fn start(
        kubeconfig: &Path,
        account: &str,
        add: impl FnOnce(&Manager) + Send + 'static,
    ) -> Self {
        let mut kubeconfig = Kubeconfig::read_from(kubeconfig).unwrap();
        for user in &mut kubeconfig.auth_infos {
            let account = format!("system:serviceaccount:operators:{account}");
            user.auth_info.as_mut().unwrap().impersonate = Some(account);
        }
        let (send, started) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(async {
                let options = ManagerOptions {
                    handles_signals: false,
                    // The plane may be gone.
                    stop_within: Duration::from_secs(2),
                    ..ManagerOptions::default()
                };
                let config = Config::try_from(kubeconfig).unwrap();
                let client = client::connect(config, &options.clock).unwrap();
                let manager = Manager::new(client, options);
                add(&manager);
                send.send(manager.clone()).unwrap();
                let _ = manager.run().await;
            });
        });
        Self { manager: started.recv().unwrap(), thread: Some(thread) }
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        self.manager.stop();
        // A thread that panicked has printed its message.
        let _ = self.thread.take().unwrap().join();
    }
}

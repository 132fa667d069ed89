//! [`Plane`]: a cluster in this process, with a kubeconfig, and the two programs that talk to it.

use std::io::{Cursor, Write};
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use base64::prelude::{BASE64_STANDARD, Engine};
use tempfile::TempDir;

use apiserver::Config;
use cluster::{Cluster, ClusterConfig};
use keel::Entropy;
use kubectl::Io;
use machinery::codec::yaml;
use machinery::json;

use crate::captured::Captured;

/// See the [module documentation](self).
pub(crate) struct Plane {
    cluster: Cluster,
    directory: TempDir,
}

/// What a program has printed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub code: u8,
    pub stdout: String,
    pub stderr: String,
}

impl Plane {
    /// Starts a plane; two of them give the same names to the same objects.
    pub(crate) async fn start() -> Self {
        let server = Config {
            listen: Some((Ipv4Addr::LOCALHOST, 0).into()),
            entropy: Entropy::seeded(1),
            ..Config::default()
        };
        let cluster = Cluster::start(ClusterConfig { server, ..ClusterConfig::default() });
        let plane =
            Self { cluster: cluster.await.unwrap(), directory: tempfile::tempdir().unwrap() };
        std::fs::write(plane.kubeconfig(), plane.kubeconfig_text()).unwrap();
        plane
    }

    /// The address of its server, which differs each time.
    pub(crate) fn address(&self) -> String {
        self.cluster.server().address().unwrap().to_string()
    }

    /// The path of its kubeconfig.
    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.directory.path().join("config")
    }

    /// A directory for files that the programs write.
    pub(crate) fn directory(&self) -> String {
        self.directory.path().display().to_string()
    }

    fn kubeconfig_text(&self) -> String {
        let server = self.cluster.server();
        let admin = server.admin().unwrap();
        yaml::encode(&json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "plane", "cluster": {
                "server": format!("https://{}", self.address()),
                "certificate-authority-data": BASE64_STANDARD.encode(server.authority()),
            }}],
            "users": [{"name": "admin", "user": {
                "client-certificate-data": BASE64_STANDARD.encode(&admin.certificate),
                "client-key-data": BASE64_STANDARD.encode(&admin.key),
            }}],
            "contexts": [
                {"name": "plane", "context": {"cluster": "plane", "user": "admin"}},
                {"name": "system", "context":
                    {"cluster": "plane", "user": "admin", "namespace": "kube-system"}},
            ],
            "current-context": "plane",
        }))
    }

    /// Runs the real kubectl.
    pub(crate) async fn kubectl(&self, args: &[String], input: &[u8]) -> Outcome {
        let mut command = Command::new("kubectl");
        command.arg("--kubeconfig").arg(self.kubeconfig());
        command.arg("--cache-dir").arg(self.directory.path().join("cache")).args(args);
        command.env_remove("KUBECONFIG").env("HOME", self.directory.path());
        command.env("KUBE_EDITOR", editor());
        let input = input.to_vec();
        let output = tokio::task::spawn_blocking(move || {
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
            let mut child = command.spawn().unwrap();
            // A kubectl that reads nothing may end before the input is written.
            let _ = child.stdin.take().unwrap().write_all(&input);
            child.wait_with_output().unwrap()
        });
        let output = output.await.unwrap();
        Outcome {
            code: u8::try_from(output.status.code().unwrap()).unwrap(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Runs this crate.
    pub(crate) async fn ours(&self, args: &[String], input: &[u8]) -> Outcome {
        let (out, err) = (Captured::default(), Captured::default());
        let mut io = Io::new(Cursor::new(input.to_vec()), out.clone(), err.clone());
        let kubeconfig = self.kubeconfig().display().to_string();
        let before = ["--kubeconfig".to_owned(), kubeconfig];
        let args = before.into_iter().chain(args.iter().cloned()).collect();
        let code = kubectl::call_for_code(args, &mut io).await.unwrap();
        Outcome { code, stdout: out.text(), stderr: err.text() }
    }
}

/// An editor that changes `before` to `after`.
fn editor() -> &'static str {
    "sed -i s/before/after/"
}

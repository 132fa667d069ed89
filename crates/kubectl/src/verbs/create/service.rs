//! `create service`: clusterip, nodeport, loadbalancer and externalname.

use clap::Subcommand;

use super::GeneratorArgs;
use crate::error::Error;
use crate::io::Io;
use crate::session::Session;
use machinery::{Value, json};

/// Create a Service
#[derive(Debug, Subcommand)]
pub(super) enum ServiceArgs {
    /// Reachable in the cluster
    Clusterip(ClusterIpArgs),
    /// Reachable on a port of each node
    Nodeport(NodePortArgs),
    /// Reachable through a load balancer
    Loadbalancer(PortArgs),
    /// Another name for a host
    Externalname(ExternalNameArgs),
}

#[derive(Debug, clap::Args)]
pub(super) struct PortArgs {
    /// Name of the Service
    name: String,
    /// Port, or PORT:TARGET-PORT
    #[arg(long, value_name = "PORT[:TARGET]", value_delimiter = ',')]
    tcp: Vec<String>,
    #[command(flatten)]
    common: GeneratorArgs,
}

#[derive(Debug, clap::Args)]
pub(super) struct ClusterIpArgs {
    #[command(flatten)]
    ports: PortArgs,
    /// Address, or None for a headless Service
    #[arg(long, value_name = "ADDRESS")]
    clusterip: Option<String>,
}

#[derive(Debug, clap::Args)]
pub(super) struct NodePortArgs {
    #[command(flatten)]
    ports: PortArgs,
    /// Port of the nodes
    #[arg(long, value_name = "PORT")]
    node_port: Option<u16>,
}

#[derive(Debug, clap::Args)]
pub(super) struct ExternalNameArgs {
    #[command(flatten)]
    ports: PortArgs,
    /// Name of the host
    #[arg(long, value_name = "HOST")]
    external_name: String,
}

impl ServiceArgs {
    pub(super) async fn run(self, session: &Session, io: &mut Io) -> Result<(), Error> {
        match self {
            Self::Clusterip(args) => {
                let is_headless = args.clusterip.as_deref() == Some("None");
                let mut spec = args.ports.spec("ClusterIP", is_headless)?;
                if let Some(address) = &args.clusterip {
                    spec["clusterIP"] = address.as_str().into();
                }
                args.ports.create(session, io, spec, "ClusterIP").await
            }
            Self::Nodeport(args) => {
                let mut spec = args.ports.spec("NodePort", false)?;
                if let Some(port) = args.node_port {
                    for it in spec["ports"].as_array_mut().into_iter().flatten() {
                        it["nodePort"] = port.into();
                    }
                }
                args.ports.create(session, io, spec, "NodePort").await
            }
            Self::Loadbalancer(args) => {
                let spec = args.spec("LoadBalancer", false)?;
                args.create(session, io, spec, "LoadBalancer").await
            }
            Self::Externalname(args) => {
                let mut spec = args.ports.spec("ExternalName", true)?;
                spec["externalName"] = args.external_name.as_str().into();
                args.ports.create(session, io, spec, "ExternalName").await
            }
        }
    }
}

impl PortArgs {
    fn spec(&self, kind: &str, may_lack_ports: bool) -> Result<Value, Error> {
        if self.tcp.is_empty() && !may_lack_ports {
            return Err(Error::message("at least one tcp port specifier must be provided"));
        }
        let mut ports = Vec::new();
        for text in &self.tcp {
            let (port, target) = text.split_once(':').unwrap_or((text, text));
            let number: u16 =
                port.parse().map_err(|_| Error::message(format!("invalid port: {port}")))?;
            let target = match target.parse::<u16>() {
                Ok(number) => Value::from(number),
                Err(_) => Value::from(target),
            };
            ports.push(json!({"name": text.replace(':', "-"), "protocol": "TCP", "port": number,
                "targetPort": target}));
        }
        let mut spec = json!({"selector": {"app": self.name}, "type": kind});
        if !ports.is_empty() {
            spec["ports"] = ports.into();
        }
        Ok(spec)
    }

    async fn create(
        &self,
        session: &Session,
        io: &mut Io,
        spec: Value,
        kind: &str,
    ) -> Result<(), Error> {
        let object = json!({"apiVersion": "v1", "kind": "Service",
            "metadata": {"name": self.name, "labels": {"app": self.name}}, "spec": spec});
        let failed = format!("failed to create {kind} service: ");
        self.common.create(session, io, object, &failed).await
    }
}

//! `create deployment`, `create job` and `create cronjob`.

use super::GeneratorArgs;
use crate::error::Error;
use crate::io::Io;
use crate::session::Session;
use machinery::fields::text;
use machinery::{Value, json};

/// Create a Deployment
#[derive(Debug, clap::Args)]
pub(super) struct DeploymentArgs {
    /// Name of the Deployment
    name: String,
    /// Image; repeat it for more containers
    #[arg(long, value_name = "IMAGE", required = true, value_delimiter = ',')]
    image: Vec<String>,
    /// Number of pods
    #[arg(long, short, value_name = "NUMBER", default_value_t = 1)]
    replicas: i32,
    /// Port of the container
    #[arg(long, value_name = "PORT")]
    port: Option<u16>,
    /// Command of the container
    #[arg(last = true)]
    command: Vec<String>,
    #[command(flatten)]
    common: GeneratorArgs,
}

/// Create a Job
#[derive(Debug, clap::Args)]
pub(super) struct JobArgs {
    /// Name of the Job
    name: String,
    /// Image of the container
    #[arg(long, value_name = "IMAGE", required_unless_present = "from")]
    image: Option<String>,
    /// CronJob whose Job is run now, as cronjob/NAME
    #[arg(long, value_name = "CRONJOB", conflicts_with = "image")]
    from: Option<String>,
    /// Command of the container
    #[arg(last = true)]
    command: Vec<String>,
    #[command(flatten)]
    common: GeneratorArgs,
}

/// Create a CronJob
#[derive(Debug, clap::Args)]
pub(super) struct CronJobArgs {
    /// Name of the CronJob
    name: String,
    /// Image of the container
    #[arg(long, value_name = "IMAGE")]
    image: String,
    /// When it runs, such as "*/5 * * * *"
    #[arg(long, value_name = "SCHEDULE")]
    schedule: String,
    /// When the container is restarted: OnFailure or Never
    #[arg(long, value_name = "POLICY", default_value = "OnFailure")]
    restart: String,
    /// Command of the container
    #[arg(last = true)]
    command: Vec<String>,
    #[command(flatten)]
    common: GeneratorArgs,
}

impl DeploymentArgs {
    pub(super) async fn run(self, session: &Session, io: &mut Io) -> Result<(), Error> {
        if self.image.len() > 1 && !self.command.is_empty() {
            return Err(Error::message("cannot specify multiple --image options and command"));
        }
        if self.replicas < 0 {
            return Err(Error::message("--replicas must be greater than or equal to 0"));
        }
        let labels = json!({"app": self.name});
        let containers: Vec<Value> = self
            .image
            .iter()
            .enumerate()
            .map(|(index, image)| {
                let port = self.port.filter(|_| index == 0);
                container(&container_name(image), image, &self.command, port)
            })
            .collect();
        let object = json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": self.name, "labels": labels},
            "spec": {"replicas": self.replicas, "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": {"containers": containers}}},
        });
        self.common.create(session, io, object, "failed to create deployment: ").await
    }
}

impl JobArgs {
    pub(super) async fn run(self, session: &Session, io: &mut Io) -> Result<(), Error> {
        let object = match (&self.from, &self.image) {
            (Some(from), _) => self.job_of_cron_job(session, from).await?,
            (None, image) => {
                let image = image.as_deref().unwrap_or_default();
                let container = container(&self.name, image, &self.command, None);
                json!({
                    "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": self.name},
                    "spec": {"template": {"spec":
                        {"containers": [container], "restartPolicy": "Never"}}},
                })
            }
        };
        self.common.create(session, io, object, "failed to create job: ").await
    }

    async fn job_of_cron_job(&self, session: &Session, from: &str) -> Result<Value, Error> {
        let Some((kind, name)) = from.split_once('/') else {
            return Err(Error::message(format!("from must be cronjob/NAME, and is {from:?}")));
        };
        let resource = session.discovery().await?.resource(kind)?;
        if resource.kind != "CronJob" {
            return Err(Error::message(
                "from must be an existing cronjob, such as --from=cronjob/NAME",
            ));
        }
        let collection = resource.collection(Some(&session.namespace));
        let found = session.get(&format!("{collection}/{name}")).await?;
        let template = &found["spec"]["jobTemplate"];
        let mut metadata = json!({
            "name": self.name,
            "annotations": {"cronjob.kubernetes.io/instantiate": "manual"},
            "labels": template["metadata"]["labels"],
            "ownerReferences": [{
                "apiVersion": "batch/v1", "kind": "CronJob", "name": name,
                "uid": text(&found["metadata"], "uid"), "controller": true,
            }],
        });
        for (key, value) in machinery::fields::entries(&template["metadata"], "annotations") {
            metadata["annotations"][key] = value.clone();
        }
        Ok(json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata,
            "spec": template["spec"]}))
    }
}

impl CronJobArgs {
    pub(super) async fn run(self, session: &Session, io: &mut Io) -> Result<(), Error> {
        let container = container(&self.name, &self.image, &self.command, None);
        let object = json!({
            "apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": self.name},
            "spec": {
                "schedule": self.schedule,
                "jobTemplate": {"metadata": {"name": self.name}, "spec": {"template": {"spec":
                    {"containers": [container], "restartPolicy": self.restart}}}},
            },
        });
        self.common.create(session, io, object, "failed to create cronjob: ").await
    }
}

fn container(name: &str, image: &str, command: &[String], port: Option<u16>) -> Value {
    let mut container = json!({"name": name, "image": image});
    if !command.is_empty() {
        container["command"] = command.to_vec().into();
    }
    if let Some(port) = port {
        container["ports"] = json!([{"containerPort": port}]);
    }
    container
}

/// The name of a container that runs an image: `registry/team/web:1` is `web`.
fn container_name(image: &str) -> String {
    let last = image.rsplit('/').next().unwrap_or(image);
    let name = last.split([':', '@']).next().unwrap_or(last);
    name.replace('_', "-").to_lowercase()
}

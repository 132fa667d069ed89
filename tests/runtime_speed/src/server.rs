//! The server: our own, in memory, with all cached and reconciled objects.

use std::io::Write;
use std::{fs, io};

use anyhow::{Context, Result};
use futures_util::{TryStreamExt, stream};
use http::Request;
use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client, CustomResourceExt};
use serde::{Deserialize, Serialize};
use tokio::io::AsyncReadExt;

use crate::args::Serve;
use crate::{pod, widget};
use keel::Entropy;
use testenv::TestEnv;

/// The number of concurrent creations.
const CONCURRENCY: usize = 32;
/// The number of objects whose length is measured.
const SAMPLED: usize = 100;

/// The mean length of objects in JSON, `managedFields` included.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Lengths {
    /// A custom resource, in bytes.
    pub widget: usize,
    /// A pod, in bytes.
    pub pod: usize,
}

/// Serves until standard input is closed; prints the [`Lengths`] when all objects exist.
pub(crate) async fn serve(args: &Serve) -> Result<()> {
    let env = TestEnv::builder().system_clock().listen().try_start().await?;
    let client = env.kube();
    let entropy = Entropy::seeded(1);
    create_namespaces(&client).await?;
    env.install_crd(&widget::Widget::crd()).await;
    create_widgets(&client, widget::CACHED, args.widgets, &entropy).await?;
    create_widgets(&client, widget::CONTROLLED, args.controlled, &entropy).await?;
    create_pods(&client, args.pods, &entropy).await?;
    let lengths = Lengths {
        widget: length(&client, "/apis/speed.example.com/v1/widgets").await?,
        pod: length(&client, "/api/v1/pods").await?,
    };
    fs::write(&args.kubeconfig, env.kubeconfig())?;
    writeln!(io::stdout(), "{}", serde_json::to_string(&lengths)?)?;
    tokio::io::stdin().read_to_end(&mut Vec::new()).await?;
    Ok(env.stop().await?)
}

async fn create_namespaces(client: &Client) -> Result<()> {
    let namespaces = Api::<Namespace>::all(client.clone());
    for name in [widget::CACHED, widget::CONTROLLED] {
        let metadata = ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
        let namespace = Namespace { metadata, ..Namespace::default() };
        namespaces.create(&PostParams::default(), &namespace).await?;
    }
    Ok(())
}

async fn create_widgets(
    client: &Client,
    namespace: &str,
    count: usize,
    entropy: &Entropy,
) -> Result<()> {
    let api = Api::<widget::Widget>::namespaced(client.clone(), namespace);
    let author = written_by("kubectl-client-side-apply");
    stream::iter((0..count).map(Ok))
        .try_for_each_concurrent(CONCURRENCY, |number| {
            let (api, author) = (&api, &author);
            async move {
                api.create(author, &widget::sample(number, entropy)).await?;
                Ok(())
            }
        })
        .await
}

async fn create_pods(client: &Client, count: usize, entropy: &Entropy) -> Result<()> {
    let api = Api::<Pod>::namespaced(client.clone(), widget::CACHED);
    let (manager, kubelet) = (written_by("kube-controller-manager"), written_by("kubelet"));
    stream::iter((0..count).map(Ok))
        .try_for_each_concurrent(CONCURRENCY, |number| {
            let (api, manager, kubelet) = (&api, &manager, &kubelet);
            async move {
                let created = api.create(manager, &pod::sample(number, entropy)?).await?;
                let name = created.metadata.name.as_deref().context("a pod has no name")?;
                let running = pod::running(&created, number, entropy)?;
                api.replace_status(name, kubelet, &running).await?;
                Ok(())
            }
        })
        .await
}

fn written_by(manager: &str) -> PostParams {
    PostParams { field_manager: Some(manager.to_owned()), ..PostParams::default() }
}

/// The mean length of the first objects.
async fn length(client: &Client, collection: &str) -> Result<usize> {
    let request = Request::get(format!("{collection}?limit={SAMPLED}")).body(Vec::new())?;
    let list: serde_json::Value = client.request(request).await?;
    let items = list["items"].as_array().context("a list has no items")?;
    let lengths = items.iter().map(|item| item.to_string().len());
    Ok(lengths.sum::<usize>() / items.len().max(1))
}

//! The load: changes every reconciled object once per round, in a separate process.

use anyhow::Result;
use futures_util::{TryStreamExt, stream};
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::args::Load;
use crate::widget;
use crate::widget::Widget;
use keel::Clock;
use runtime::client;

/// The number of concurrent changes.
const CONCURRENCY: usize = 32;

/// Makes all changes as fast as the server accepts them.
pub(crate) async fn change(args: &Load) -> Result<()> {
    let client = client::connect(client::infer().await?, &Clock::system())?;
    let api = Api::<Widget>::namespaced(client, widget::CONTROLLED);
    for round in args.from..=args.to {
        let patch = Patch::Merge(json!({"spec": {"round": round}}));
        stream::iter((0..args.objects).map(Ok))
            .try_for_each_concurrent(CONCURRENCY, |number| {
                let (api, patch) = (&api, &patch);
                async move {
                    api.patch(&widget::name(number), &PatchParams::default(), patch).await?;
                    anyhow::Ok(())
                }
            })
            .await?;
    }
    Ok(())
}

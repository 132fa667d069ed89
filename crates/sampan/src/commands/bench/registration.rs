//! How long a new definition takes until its objects can be listed and created.

use super::load::{Bound, closed_loop};
use super::objects::Sample;
use super::report::{Report, Title};
use super::session::Session;
use anyhow::{Context, Result};

/// Registers so many definitions, one after the other, and removes them again.
pub(crate) async fn run(session: &Session<'_>, count: u64, report: &mut Report) -> Result<()> {
    let title = Title { resource: "definitions", operation: "register", concurrency: 1 };
    let bound = Bound { count, ..session.bound };
    let work = closed_loop(1, bound, async |step| register(session, &name(step.number)).await);
    session.measure(report, title, work).await;
    for number in 0..count {
        session.stage.delete_definition(&name(number)).await.context("cannot tidy up")?;
    }
    Ok(())
}

async fn register(session: &Session<'_>, singular: &str) -> Result<u64> {
    let (pool, stage) = (session.pool, session.stage);
    stage.create_definition(singular).await?;
    let sample = Sample::custom(&stage.group, singular, &stage.namespace);
    stage.until_served(async || pool.drain(&sample.collection).await).await?;
    // Some servers list what they cannot store yet.
    let create = async || {
        let body = sample.body("first", None, session.next_mark());
        pool.post(&sample.collection, body).await
    };
    Ok(stage.until_served(create).await?.len() as u64)
}

fn name(number: u64) -> String {
    format!("registered{number}")
}

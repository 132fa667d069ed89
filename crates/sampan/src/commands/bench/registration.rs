//! The time from the creation of a CRD until its objects can be listed and created.

use anyhow::{Context, Result};

use super::load::{Bound, closed_loop};
use super::objects::Sample;
use super::report::{Report, Title};
use super::session::Session;

/// Registers a number of CRDs, one after the other, and removes them.
pub(crate) async fn run(session: &Session<'_>, count: u64, report: &mut Report) -> Result<()> {
    let title = Title { resource: "definitions", operation: "register", concurrency: 1 };
    let bound = Bound { count, ..session.bound };
    let work = closed_loop(1, bound, async |step| register(session, &name(step.number)).await);
    session.measure(report, title, work).await;
    for number in 0..count {
        session.fixtures.delete_crd(&name(number)).await.context("cannot delete a CRD")?;
    }
    Ok(())
}

async fn register(session: &Session<'_>, singular: &str) -> Result<u64> {
    let (pool, fixtures) = (session.pool, session.fixtures);
    fixtures.create_crd(singular).await?;
    let sample = Sample::custom(&fixtures.group, singular, &fixtures.namespace);
    fixtures.until_served(async || pool.drain(&sample.collection).await).await?;
    // Some servers list a resource before they can store its objects.
    let create = async || {
        let body = sample.body("first", None, session.next_mark());
        pool.post(&sample.collection, body).await
    };
    Ok(fixtures.until_served(create).await?.len() as u64)
}

fn name(number: u64) -> String {
    format!("registered{number}")
}

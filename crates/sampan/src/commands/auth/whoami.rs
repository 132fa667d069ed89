//! `sampan auth whoami`: the name, the groups and the further attributes of the user, by the server.

use anyhow::{Result, bail};

use crate::connection::{ConnectionArgs, ImpersonationArgs, explain, who_am_i};
use crate::output::print;
use crate::table::aligned;
use client::json_requests::has_code;
use keel::Clock;
use machinery::Value;

const EXAMPLES: &str = "Examples:
  sampan auth whoami
  sampan auth whoami --context jane@sampan";

/// Print the name and the groups by which the cluster knows you
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct WhoamiArgs {
    #[command(flatten)]
    impersonation: ImpersonationArgs,
    #[command(flatten)]
    connection: ConnectionArgs,
}

/// Runs the command.
pub(super) async fn run(args: WhoamiArgs, clock: &Clock) -> Result<()> {
    let asked = args.connection.run(clock, async |connection| {
        let client = connection.acting_as(&args.impersonation)?;
        match who_am_i(&client).await {
            Err(error) if has_code(&error, 404) => {
                bail!("the selfsubjectreviews API is not enabled in the cluster")
            }
            reviewed => reviewed.map_err(explain),
        }
    });
    let user = asked.await?;
    print(aligned(&rows(&user)).as_bytes())
}

fn rows(user: &Value) -> Vec<Vec<String>> {
    let list = |it: &Value| {
        let values = it.as_array().into_iter().flatten().filter_map(Value::as_str);
        format!("[{}]", values.collect::<Vec<_>>().join(" "))
    };
    let mut rows = vec![vec!["ATTRIBUTE".to_owned(), "VALUE".to_owned()]];
    for (field, title) in [("username", "Username"), ("uid", "UID")] {
        if let Some(value) = user[field].as_str().filter(|it| !it.is_empty()) {
            rows.push(vec![title.to_owned(), value.to_owned()]);
        }
    }
    if user["groups"].as_array().is_some_and(|it| !it.is_empty()) {
        rows.push(vec!["Groups".to_owned(), list(&user["groups"])]);
    }
    let mut extra: Vec<_> = user["extra"].as_object().into_iter().flatten().collect();
    extra.sort_by_key(|(name, _)| name.as_str());
    rows.extend(extra.iter().map(|(name, values)| vec![format!("Extra: {name}"), list(values)]));
    rows
}

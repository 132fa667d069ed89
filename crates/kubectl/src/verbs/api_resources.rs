//! `api-resources` and `api-versions`: what the server serves.

use clap::ValueEnum;

use crate::discovery::ApiResource;
use crate::error::Error;
use crate::flags::with_bool_values;
use crate::io::Io;
use crate::print::columns::Columns;
use crate::session::Session;

/// Print the resources that the server serves
#[derive(Debug, clap::Args)]
#[command(mut_args(with_bool_values))]
pub struct ApiResourcesArgs {
    /// Only resources of this group; "" is the core group
    #[arg(long, value_name = "GROUP")]
    api_group: Option<String>,
    /// Only resources that are namespaced, or that are not
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL")]
    namespaced: Option<bool>,
    /// Only resources with all of these verbs
    #[arg(long, value_name = "VERB", value_delimiter = ',')]
    verbs: Vec<String>,
    /// Only resources of all of these categories
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    categories: Vec<String>,
    /// Output format: wide or name
    #[arg(long, short, value_name = "FORMAT")]
    output: Option<String>,
    /// Sort by name or kind
    #[arg(long, value_enum, value_name = "COLUMN")]
    sort_by: Option<SortBy>,
    /// Print no headers
    #[arg(long)]
    no_headers: bool,
    /// Accepted and ignored: nothing is cached
    #[arg(long, hide = true)]
    cached: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum SortBy {
    Name,
    Kind,
}

impl ApiResourcesArgs {
    /// Runs the verb.
    pub(crate) async fn run(self, session: &Session, io: &mut Io) -> Result<(), Error> {
        let (is_wide, is_name) = match self.output.as_deref().unwrap_or_default() {
            "" => (false, false),
            "wide" => (true, false),
            "name" => (false, true),
            other => return Err(Error::message(format!("--output {other} is not available"))),
        };
        let discovery = session.discovery().await?;
        let mut shown: Vec<&ApiResource> = Vec::new();
        for resource in &discovery.resources {
            // The first version of a group is the preferred one.
            let is_first =
                !shown.iter().any(|it| it.group == resource.group && it.name == resource.name);
            if is_first && self.includes(resource) {
                shown.push(resource);
            }
        }
        shown.sort_by_key(|it| match self.sort_by {
            Some(SortBy::Name) => (it.name.clone(), String::new()),
            Some(SortBy::Kind) => (it.kind.clone(), String::new()),
            None => (it.group.clone(), it.name.clone()),
        });
        let mut rows = Columns::default();
        if !self.no_headers && !is_name {
            let headers = ["NAME", "SHORTNAMES", "APIVERSION", "NAMESPACED", "KIND"];
            let wide = ["VERBS", "CATEGORIES"].into_iter().filter(|_| is_wide);
            rows.push(headers.into_iter().chain(wide).map(str::to_owned).collect());
        }
        for it in shown {
            if is_name {
                rows.push(vec![it.full_name()]);
                continue;
            }
            let mut row = vec![
                it.name.clone(),
                it.short_names.join(","),
                it.api_version(),
                it.is_namespaced.to_string(),
                it.kind.clone(),
            ];
            if is_wide {
                row.extend([it.verbs.join(","), it.categories.join(",")]);
            }
            rows.push(row);
        }
        io.print(&rows.take_text())
    }

    fn includes(&self, it: &ApiResource) -> bool {
        !it.verbs.is_empty()
            && self.api_group.as_ref().is_none_or(|group| *group == it.group)
            && self.namespaced.is_none_or(|namespaced| namespaced == it.is_namespaced)
            && self.verbs.iter().all(|verb| it.has_verb(verb))
            && self.categories.iter().all(|category| it.categories.contains(category))
    }
}

/// Print the versions of the API that the server serves, as group/version
#[derive(Debug, clap::Args)]
pub struct ApiVersionsArgs {}

impl ApiVersionsArgs {
    /// Runs the verb.
    pub(crate) async fn run(self, session: &Session, io: &mut Io) -> Result<(), Error> {
        let discovery = session.discovery().await?;
        let mut versions: Vec<String> =
            discovery.versions.iter().map(ToString::to_string).collect();
        versions.sort();
        versions.iter().try_for_each(|it| io.line(it))
    }
}

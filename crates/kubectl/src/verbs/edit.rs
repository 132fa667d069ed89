//! `edit`: changes an object in an editor.

use std::fs;
use std::path::Path;

use crate::error::Error;
use crate::flags::with_bool_values;
use crate::io::Io;
use crate::lists::{ListOptions, objects};
use crate::manifests::FileArgs;
use crate::mutation::{MERGE_PATCH, MutationArgs, Results, merge_patch, patch};
use crate::print::object::{indented_json, to_yaml, without_managed_fields};
use crate::session::Session;
use crate::targets::{Rules, SelectorArgs, Target, Targets};
use machinery::Value;
use machinery::codec::yaml;

/// What the file begins with.
const HEAD: &str = "# Change the object below. Lines that begin with '#' are left out, and an empty
# file ends the edit. If the server refuses the object, this file is opened
# again with the reason.
#
";

/// How often the editor is opened.
const ATTEMPTS: usize = 10;

/// Change an object in an editor
#[derive(Debug, clap::Args)]
#[command(
    mut_args(with_bool_values),
    after_help = "The editor is KUBE_EDITOR, EDITOR or vi.

Examples:
  kubectl edit deployment/web
  KUBE_EDITOR=nano kubectl edit configmap settings"
)]
pub struct EditArgs {
    /// Types and names
    #[arg(value_name = "TYPE/NAME")]
    resources: Vec<String>,
    #[command(flatten)]
    files: FileArgs,
    #[command(flatten)]
    selectors: SelectorArgs,
    /// Edit a subresource, such as `status`
    #[arg(long, value_name = "NAME")]
    subresource: Option<String>,
    /// Accepted and ignored: lines end as the editor ends them
    #[arg(long, hide = true)]
    windows_line_endings: bool,
    #[command(flatten)]
    mutation: MutationArgs,
}

impl EditArgs {
    /// Runs the verb.
    pub(crate) async fn run(self, session: &Session, io: &mut Io) -> Result<(), Error> {
        let as_json = self.mutation.output.output.as_deref() == Some("json");
        let mut results = Results::of_lines(&self.mutation);
        let rules = Rules { has_selector: !self.selectors.is_empty(), ..Rules::default() };
        let found = Targets::find(session, io, &self.resources, &self.files, rules).await?;
        let options = ListOptions { query: self.selectors.query(), ..ListOptions::default() };
        let mut is_changed = false;
        for target in &found.targets {
            for object in objects(session, target, &options).await? {
                let one = Target::of_object(&target.resource, &object);
                is_changed |= self.edit(session, io, &one, object, as_json, &mut results).await?;
            }
        }
        if !is_changed {
            io.note("Edit cancelled, no changes made.");
        }
        Ok(())
    }

    /// Edits one object; whether it was changed.
    async fn edit(
        &self,
        session: &Session,
        io: &mut Io,
        target: &Target,
        mut before: Value,
        as_json: bool,
        results: &mut Results,
    ) -> Result<bool, Error> {
        without_managed_fields(&mut before);
        let original = if as_json { indented_json(&before) } else { to_yaml(&before) };
        let suffix = if as_json { ".json" } else { ".yaml" };
        let file = tempfile::Builder::new().prefix("kubectl-edit-").suffix(suffix).tempfile();
        let file = file
            .map_err(|error| Error::message(format!("cannot write a temporary file: {error}")))?;
        let mut text = format!("{HEAD}{original}");
        for _ in 0..ATTEMPTS {
            let edited = open_editor(file.path(), &text).await?;
            let bare = without_comments(&edited);
            if bare.trim().is_empty() || bare.trim() == original.trim() || edited == text {
                return Ok(false);
            }
            match self.store(session, target, &before, &bare).await {
                Ok(object) => {
                    results.print(io, &object, "edited")?;
                    return Ok(true);
                }
                Err(error @ (Error::Server(_) | Error::Message(_))) => {
                    let reason = error.text();
                    io.note(&reason);
                    let reason = reason.replace('\n', "\n# ");
                    text = format!("{HEAD}# {reason}\n#\n{bare}");
                }
                Err(error) => return Err(error),
            }
        }
        Err(Error::message("the object is still not valid; nothing was changed"))
    }

    async fn store(
        &self,
        session: &Session,
        target: &Target,
        before: &Value,
        text: &str,
    ) -> Result<Value, Error> {
        let decoded = yaml::decode(text.as_bytes());
        let after = decoded.map_err(|error| Error::message(error.to_string()))?.value;
        for field in ["apiVersion", "kind"] {
            if after[field] != before[field] {
                return Err(Error::message(format!("{field} cannot be changed")));
            }
        }
        if after["metadata"]["name"] != before["metadata"]["name"] {
            return Err(Error::message("metadata.name cannot be changed"));
        }
        let change = merge_patch(before, &after);
        let query = self.mutation.query("kubectl-edit");
        let path = match &self.subresource {
            Some(subresource) => format!("{}/{subresource}", target.path()),
            None => target.path(),
        };
        patch(session, &path, MERGE_PATCH, &query, &change).await
    }
}

/// The text after it was edited.
async fn open_editor(path: &Path, text: &str) -> Result<String, Error> {
    let failed = |error: &dyn std::fmt::Display| {
        Error::message(format!("cannot edit {}: {error}", path.display()))
    };
    fs::write(path, text).map_err(|error| failed(&error))?;
    let set = |name: &str| std::env::var(name).ok().filter(|it| !it.trim().is_empty());
    let editor = set("KUBE_EDITOR").or_else(|| set("EDITOR")).unwrap_or_else(|| "vi".to_owned());
    // The variable may have arguments, and quotes around them.
    let mut command = std::process::Command::new("/bin/sh");
    command.arg("-c").arg(format!("{editor} \"$0\"")).arg(path);
    let status = tokio::task::spawn_blocking(move || command.status()).await;
    let status = status.map_err(|error| failed(&error))?.map_err(|error| failed(&error))?;
    if !status.success() {
        return Err(Error::message(format!(
            "there was a problem with the editor {editor:?}; set KUBE_EDITOR or EDITOR to another one"
        )));
    }
    fs::read_to_string(path).map_err(|error| failed(&error))
}

/// The text without the lines that begin with `#`.
fn without_comments(text: &str) -> String {
    text.split_inclusive('\n').filter(|it| !it.starts_with('#')).collect()
}

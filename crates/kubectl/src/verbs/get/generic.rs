//! `get` in the formats for programs.

use super::View;
use crate::error::Error;
use crate::io::Io;
use crate::lists;
use crate::manifests::list_of;
use crate::print::format::{Format, ObjectPrinter};
use crate::print::sort::sort_by_field;
use crate::targets::{Target, Targets};
use machinery::Value;

/// Prints one object as it is, and several as a list.
pub(super) async fn print(
    view: &View<'_>,
    io: &mut Io,
    found: &Targets,
    format: Format,
) -> Result<(), Error> {
    let mut objects = Vec::new();
    let mut errors = Vec::new();
    for target in &found.targets {
        match read(view, target).await {
            Ok(read) => objects.extend(read),
            Err(error) if view.is_ignored(&error) => {}
            Err(error) if found.is_single => return Err(error),
            Err(error) => errors.push(error),
        }
    }
    if objects.is_empty() && view.args.ignore_not_found {
        return Error::all(errors);
    }
    if let Some(path) = &view.args.table.sort_by {
        sort_by_field(&mut objects, path, |it| it)?;
    }
    let mut printer = ObjectPrinter::new(format, view.args.output.show_managed_fields);
    let printed =
        if found.is_single && objects.len() == 1 { objects.remove(0) } else { list_of(&objects) };
    io.print(&printer.text(&printed))?;
    Error::all(errors)
}

async fn read(view: &View<'_>, target: &Target) -> Result<Vec<Value>, Error> {
    if target.name.is_some() {
        return Ok(vec![view.session.get(&view.object_path(target)?).await?]);
    }
    view.object_path(target)?;
    lists::objects(view.session, target, &view.list_options(false)).await
}

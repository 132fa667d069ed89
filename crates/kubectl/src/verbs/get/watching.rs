//! `get --watch`: prints changes until the user or the reader of the output has enough.

use super::human::as_table;
use super::{TABLE, View};
use crate::error::Error;
use crate::io::Io;
use crate::lists;
use crate::print::format::{Format, ObjectPrinter};
use crate::print::table::TablePrinter;
use crate::session::{JSON, decode};
use crate::targets::{Target, Targets};
use crate::watch::Watch;
use machinery::fields::text;
use machinery::{Value, json};

/// What prints objects and changes.
enum Printer {
    Table(TablePrinter),
    Objects(ObjectPrinter),
}

/// Prints the objects, and then their changes.
pub(super) async fn follow(
    view: &View<'_>,
    io: &mut Io,
    found: &Targets,
    format: Format,
) -> Result<(), Error> {
    let [target] = found.targets.as_slice() else {
        return Err(Error::message("you may only specify a single resource type"));
    };
    if view.args.table.sort_by.is_some() {
        io.note("warning: --watch requested, --sort-by will be ignored for watch events received");
    }
    let mut printer = match format {
        Format::Human { wide } => {
            let with_namespace = view.args.all_namespaces && target.resource.is_namespaced;
            Printer::Table(TablePrinter::new(&view.table_options(wide), with_namespace))
        }
        format => {
            Printer::Objects(ObjectPrinter::new(format, view.args.output.show_managed_fields))
        }
    };
    let is_table = matches!(printer, Printer::Table(_)) && view.args.table.server_print;
    let accept = if is_table { TABLE } else { JSON };
    let pages = match first(view, target, accept).await {
        Err(error) if view.is_ignored(&error) => return Ok(()),
        read => read?,
    };
    let resource_version = resource_version(&pages, target, is_table);
    if !view.args.watch_only {
        for page in pages {
            print(view, io, &mut printer, target, "ADDED", page)?;
        }
    }
    let query = view.args.selectors.query();
    let mut watch = Watch::start(view.session, target, &query, accept, &resource_version).await?;
    while let Some(event) = watch.next().await? {
        if event.kind != "BOOKMARK" {
            print(view, io, &mut printer, target, &event.kind, event.object)?;
        }
        if io.is_closed() {
            break;
        }
    }
    Ok(())
}

/// The objects before the first change.
async fn first(view: &View<'_>, target: &Target, accept: &str) -> Result<Vec<Value>, Error> {
    if target.name.is_some() {
        return Ok(vec![decode(&view.session.get_bytes(&target.path(), accept).await?)?]);
    }
    let mut options = view.list_options(accept == TABLE);
    options.chunk = view.args.chunk_size;
    lists::pages(view.session, target, &options).await
}

/// The revision after which changes are wanted.
fn resource_version(pages: &[Value], target: &Target, is_table: bool) -> String {
    let Some(first) = pages.first() else { return "0".to_owned() };
    let metadata = if target.name.is_some() && is_table {
        &first["rows"][0]["object"]["metadata"]
    } else {
        &first["metadata"]
    };
    text(metadata, "resourceVersion").to_owned()
}

fn print(
    view: &View<'_>,
    io: &mut Io,
    printer: &mut Printer,
    target: &Target,
    event: &str,
    object: Value,
) -> Result<(), Error> {
    match printer {
        Printer::Table(printer) => {
            let table = as_table(object, view.session.clock.now().seconds());
            printer.add(&target.resource, &table, event);
            io.print(&printer.take_text())
        }
        Printer::Objects(printer) => {
            let objects = if object["items"].is_array() {
                lists::items_with_kind(object)
            } else {
                vec![object]
            };
            for object in objects {
                let printed = if view.args.output_watch_events {
                    json!({"type": event, "object": object})
                } else {
                    object
                };
                io.print(&printer.text(&printed))?;
            }
            Ok(())
        }
    }
}

//! `get` for people: tables.

use super::{TABLE, View};
use crate::discovery::ApiResource;
use crate::error::Error;
use crate::io::Io;
use crate::lists;
use crate::print::sort::sort_by_field;
use crate::print::table::TablePrinter;
use crate::session::{JSON, decode};
use crate::targets::{Target, Targets};
use machinery::fields::{list, text};
use machinery::{Value, json, timestamp};

/// Prints a table for each kind, with an empty line between them.
pub(super) async fn print(
    view: &View<'_>,
    io: &mut Io,
    found: &Targets,
    wide: bool,
) -> Result<(), Error> {
    let mut errors = Vec::new();
    let mut tables: Vec<(&ApiResource, Value)> = Vec::new();
    for target in &found.targets {
        match read(view, target).await {
            Ok(pages) => tables.extend(pages.into_iter().map(|it| (&target.resource, it))),
            Err(error) if view.is_ignored(&error) => {}
            Err(error) => errors.push(error),
        }
    }
    if let Some(path) = &view.args.table.sort_by {
        for (_, table) in &mut tables {
            if let Some(rows) = table["rows"].as_array_mut() {
                sort_by_field(rows, path, |row| &row["object"])?;
            }
        }
    }
    let mut options = view.table_options(wide);
    options.with_kind |= has_several_kinds(&tables);
    let is_written = print_tables(view, io, &tables, &options)?;
    if !is_written && !view.args.ignore_not_found && errors.is_empty() {
        let is_namespaced = found.targets.iter().all(|it| it.resource.is_namespaced);
        if is_namespaced && !view.args.all_namespaces {
            let namespace = &view.session.namespace;
            io.note(&format!("No resources found in {namespace} namespace."));
        } else {
            io.note("No resources found");
        }
    }
    Error::all(errors)
}

fn has_several_kinds(tables: &[(&ApiResource, Value)]) -> bool {
    let kind = |it: &&ApiResource| (it.group.clone(), it.version.clone(), it.kind.clone());
    tables.windows(2).any(|pair| kind(&pair[0].0) != kind(&pair[1].0))
}

/// Prints the tables; whether there was anything to print.
fn print_tables(
    view: &View<'_>,
    io: &mut Io,
    tables: &[(&ApiResource, Value)],
    options: &crate::print::table::TableOptions,
) -> Result<bool, Error> {
    let mut is_written = false;
    let mut rest = tables;
    while let Some((first, _)) = rest.first() {
        let same =
            |it: &&(&ApiResource, Value)| it.0.name == first.name && it.0.group == first.group;
        let (group, others) = rest.split_at(rest.iter().take_while(same).count());
        rest = others;
        let with_namespace = view.args.all_namespaces && first.is_namespaced;
        let mut printer = TablePrinter::new(options, with_namespace);
        for (resource, table) in group {
            printer.add(resource, table, "");
        }
        let text = printer.take_text();
        if text.is_empty() {
            continue;
        }
        if is_written && !options.no_headers {
            io.print("\n")?;
        }
        io.print(&text)?;
        is_written = true;
    }
    Ok(is_written)
}

/// The pages of a collection, or one page with an object, as tables.
async fn read(view: &View<'_>, target: &Target) -> Result<Vec<Value>, Error> {
    let options = view.list_options(true);
    let now = view.session.clock.now().seconds();
    let path = view.object_path(target)?;
    let pages = if target.name.is_some() {
        let accept = if view.args.table.server_print { TABLE } else { JSON };
        let path = match &view.args.table.sort_by {
            Some(_) => format!("{path}?includeObject=Object"),
            None => path,
        };
        vec![decode(&view.session.get_bytes(&path, accept).await?)?]
    } else {
        lists::pages(view.session, target, &options).await?
    };
    Ok(pages.into_iter().map(|it| as_table(it, now)).collect())
}

/// A table of names and ages, for objects of a server that makes none.
pub(super) fn as_table(found: Value, now: i64) -> Value {
    if found["kind"] == "Table" {
        return found;
    }
    let objects =
        if found["items"].is_array() { list(&found, "items").to_vec() } else { vec![found] };
    let row = |object: Value| {
        let created = text(&object["metadata"], "creationTimestamp");
        let age = timestamp::parse(created).map_or("<unknown>".to_owned(), |(seconds, _)| {
            timestamp::human_duration(now - seconds)
        });
        json!({"cells": [object["metadata"]["name"], age], "object": object})
    };
    let rows: Vec<Value> = objects.into_iter().map(row).collect();
    json!({
        "kind": "Table",
        "columnDefinitions": [
            {"name": "Name", "type": "string", "format": "name", "priority": 0},
            {"name": "Age", "type": "string", "priority": 0},
        ],
        "rows": rows,
    })
}

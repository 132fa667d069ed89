//! Estimates the cost of an expression from the declared sizes of its variables.
//!
//! The walk computes the costs and sizes of nodes from those of their children. The origin of a
//! value is a path (`self`, `items`, `@items`, `name`), by which its declared size is looked up.

use std::collections::HashMap;

use super::{CostEstimate, LIST_COST, MAP_COST, STRUCT_COST, Size, calls};
use crate::ast::{ACCUMULATOR, Comprehension, Expr, Id, Kind, Literal};
use crate::checker::{Checked, Reference};
use crate::decl::{DeclKind, DeclType};
use crate::env::Env;
use crate::types::Type;

/// The minimum and the maximum cost of the expression.
pub(crate) fn estimate(checked: &Checked, env: &Env) -> CostEstimate {
    Estimator {
        checked,
        env,
        paths: HashMap::new(),
        locals: Vec::new(),
        sizes: HashMap::new(),
        entries: HashMap::new(),
    }
    .cost(&checked.expr)
}

/// The origin of a value; empty if it is computed.
pub(super) type Path = Vec<String>;

/// The sizes of the keys and values of a list or map.
#[derive(Debug, Clone, Copy)]
struct EntrySize {
    is_list: bool,
    key: Size,
    value: Size,
}

impl EntrySize {
    fn union(self, other: Self) -> Self {
        let (key, value) = (self.key.union(other.key), self.value.union(other.value));
        Self { is_list: self.is_list, key, value }
    }
}

/// A variable of a comprehension.
struct Local {
    name: String,
    path: Path,
    size: Option<Size>,
    entries: Option<EntrySize>,
}

pub(super) struct Estimator<'c> {
    checked: &'c Checked,
    env: &'c Env,
    /// The origins of nodes.
    paths: HashMap<Id, Path>,
    /// The variables of the current comprehensions, innermost last.
    locals: Vec<Local>,
    /// The known sizes of nodes.
    sizes: HashMap<Id, Size>,
    /// The known sizes of the elements of nodes that are lists or maps.
    entries: HashMap<Id, EntrySize>,
}

/// An argument of a call, for the estimates of functions.
pub(super) struct Operand<'c> {
    pub(super) expr: &'c Expr,
    pub(super) ty: &'c Type,
    path: Path,
    size: Option<Size>,
}

impl Operand<'_> {
    pub(super) fn size(&self) -> Size {
        self.size.unwrap_or(Size::UNKNOWN)
    }

    pub(super) fn known_size(&self) -> Option<Size> {
        self.size
    }
}

impl<'c> Estimator<'c> {
    fn cost(&mut self, expr: &'c Expr) -> CostEstimate {
        if let Reference::Variable(name) = &self.checked.references[expr.id] {
            let path = match self.local(name) {
                Some(local) => local.path.clone(),
                None => vec![name.clone()],
            };
            self.paths.insert(expr.id, path);
            return CostEstimate::ONE;
        }
        if let Reference::Type(name) = &self.checked.references[expr.id] {
            self.paths.insert(expr.id, vec![name.clone()]);
            return CostEstimate::ONE;
        }
        match &expr.kind {
            Kind::Literal(_) | Kind::Invalid => CostEstimate::ZERO,
            Kind::Ident(_) => CostEstimate::ONE,
            Kind::Select { operand, field, test } => self.select(expr, operand, field, *test),
            Kind::Call { target, args, .. } => self.call(expr, target.as_deref(), args),
            Kind::List(items) => {
                let mut cost = CostEstimate::fixed(LIST_COST);
                let mut value = None;
                for item in items {
                    cost = cost.plus(self.cost(&item.value));
                    value = Some(widened(value, self.size_or_unknown(&item.value)));
                }
                let value = value.unwrap_or(Size::ZERO);
                self.entries.insert(expr.id, EntrySize { is_list: true, key: Size::ONE, value });
                cost
            }
            Kind::Map(entries) => {
                let mut cost = CostEstimate::fixed(MAP_COST);
                let (mut key, mut value) = (None, None);
                for entry in entries {
                    cost = cost.plus(self.cost(&entry.key)).plus(self.cost(&entry.value));
                    key = Some(widened(key, self.size_or_unknown(&entry.key)));
                    value = Some(widened(value, self.size_or_unknown(&entry.value)));
                }
                let (key, value) = (key.unwrap_or(Size::ZERO), value.unwrap_or(Size::ZERO));
                self.entries.insert(expr.id, EntrySize { is_list: false, key, value });
                cost
            }
            Kind::Struct { fields, .. } => {
                fields.iter().fold(CostEstimate::fixed(STRUCT_COST), |cost, field| {
                    cost.plus(self.cost(&field.value))
                })
            }
            Kind::Comprehension(comprehension) if comprehension.is_bind() => {
                self.bind(expr, comprehension)
            }
            Kind::Comprehension(comprehension) => self.comprehension(expr, comprehension),
        }
    }

    fn select(
        &mut self,
        expr: &'c Expr,
        operand: &'c Expr,
        field: &str,
        test: bool,
    ) -> CostEstimate {
        let cost = self.cost(operand);
        if test {
            return cost;
        }
        let mut path = self.path(operand);
        path.push(field.to_owned());
        self.paths.insert(expr.id, path);
        match self.ty(operand) {
            Type::Map(..) | Type::Object(_) | Type::Opaque(_) | Type::Param(_) => {
                cost.plus(CostEstimate::ONE)
            }
            _ => cost,
        }
    }

    fn call(&mut self, expr: &'c Expr, target: Option<&'c Expr>, args: &'c [Expr]) -> CostEstimate {
        let Reference::Call { function, namespaced, overloads } = &self.checked.references[expr.id]
        else {
            return CostEstimate::ZERO;
        };
        if function == "dyn" && args.len() == 1 {
            let cost = self.cost(&args[0]);
            self.copy_sizes(expr, &args[0]);
            return cost.plus(CostEstimate::ONE);
        }
        let costs: Vec<CostEstimate> = args.iter().map(|arg| self.cost(arg)).collect();
        let operands: Vec<Operand<'c>> = args.iter().map(|arg| self.operand(arg)).collect();
        let mut total = CostEstimate::ZERO;
        let receiver = match target {
            Some(target) if !namespaced => {
                total = self.cost(target);
                Some(self.operand(target))
            }
            _ => None,
        };
        let mut call: Option<CostEstimate> = None;
        let mut result: Option<Size> = None;
        for overload in overloads {
            let call_site = calls::CallSite {
                function,
                overload: &overload.id,
                target: receiver.as_ref(),
                args: &operands,
                costs: &costs,
            };
            self.merge_entries(expr, &overload.id, args);
            let (cost, size) = calls::estimate(self, &call_site);
            call = Some(call.map_or(cost, |own| own.union(cost)));
            result = match (result, size) {
                (Some(own), Some(size)) => Some(own.union(size)),
                (own, size) => own.or(size),
            };
            let step = match overload.id.as_str() {
                "index_list" => "@items",
                "index_map" => "@values",
                _ => "",
            };
            if !step.is_empty() {
                result = self.entry_size(&args[0]).map(|entry| entry.value);
                let mut path = self.path(&args[0]);
                path.push(step.to_owned());
                self.paths.insert(expr.id, path);
            }
            result = result.or_else(|| self.size(expr));
        }
        if let Some(size) = result {
            self.sizes.insert(expr.id, size);
        }
        total.plus(call.unwrap_or(CostEstimate::ZERO))
    }

    /// Derives the sizes of the elements of `a + b` and `c ? a : b` from those of `a` and `b`.
    fn merge_entries(&mut self, expr: &Expr, overload: &str, args: &[Expr]) {
        let sides = match overload {
            "conditional" => args.get(1).zip(args.get(2)),
            "add_string" | "add_bytes" | "add_list" => args.first().zip(args.get(1)),
            _ => None,
        };
        if let Some((a, b)) = sides
            && let (Some(a), Some(b)) = (self.entry_size(a), self.entry_size(b))
        {
            self.entries.insert(expr.id, a.union(b));
        }
    }

    fn comprehension(&mut self, expr: &'c Expr, comprehension: &'c Comprehension) -> CostEstimate {
        let mut cost = self.cost(&comprehension.range).plus(self.cost(&comprehension.init));
        let depth = self.locals.len();
        self.push_value(&comprehension.accumulator, &comprehension.init);
        let entry = self.entry_size(&comprehension.range);
        let is_list = match entry {
            Some(entry) => entry.is_list,
            None => matches!(self.ty(&comprehension.range), Type::List(_)),
        };
        let (keys, values) = if is_list { ("@indices", "@items") } else { ("@keys", "@values") };
        match &comprehension.second_variable {
            Some(second) => {
                self.push_step(
                    &comprehension.variable,
                    &comprehension.range,
                    keys,
                    entry.map(|it| it.key),
                );
                self.push_step(second, &comprehension.range, values, entry.map(|it| it.value));
            }
            None if is_list => {
                self.push_step(
                    &comprehension.variable,
                    &comprehension.range,
                    values,
                    entry.map(|it| it.value),
                );
            }
            None => self.push_step(
                &comprehension.variable,
                &comprehension.range,
                keys,
                entry.map(|it| it.key),
            ),
        }
        let iteration = self.cost(&comprehension.condition).plus(self.cost(&comprehension.step));
        self.locals.truncate(depth + 1);
        cost = cost.plus(self.cost(&comprehension.result));
        self.locals.truncate(depth);
        let count = self.size_or_unknown(&comprehension.range);
        match &comprehension.init.kind {
            Kind::Literal(_) => {
                if let Some(size) = self.size(&comprehension.init) {
                    self.sizes.insert(expr.id, size);
                }
            }
            Kind::List(_) | Kind::Map(_) => {
                self.sizes.insert(expr.id, count);
                if let Some(entry) = self.entry_size(&comprehension.step) {
                    self.entries.insert(expr.id, entry);
                }
            }
            _ => {}
        }
        cost.plus(count.times(iteration))
    }

    fn bind(&mut self, expr: &'c Expr, comprehension: &'c Comprehension) -> CostEstimate {
        let cost = self.cost(&comprehension.range).plus(self.cost(&comprehension.init));
        let depth = self.locals.len();
        self.push_value(&comprehension.accumulator, &comprehension.init);
        let cost = cost.plus(self.cost(&comprehension.result));
        self.locals.truncate(depth);
        self.copy_sizes(expr, &comprehension.result);
        cost
    }

    fn push_value(&mut self, name: &str, value: &Expr) {
        let path = self.path(value);
        let (size, entries) = (self.size(value), self.entry_size(value));
        self.locals.push(Local { name: name.to_owned(), path, size, entries });
    }

    fn push_step(&mut self, name: &str, range: &Expr, step: &str, size: Option<Size>) {
        let mut path = self.path(range);
        path.push(step.to_owned());
        self.locals.push(Local { name: name.to_owned(), path, size, entries: None });
    }

    fn local(&self, name: &str) -> Option<&Local> {
        self.locals.iter().rev().find(|local| local.name == name)
    }

    fn local_of(&self, expr: &Expr) -> Option<&Local> {
        match &expr.kind {
            Kind::Ident(name) => self.local(name),
            _ => None,
        }
    }

    fn ty(&self, expr: &Expr) -> &'c Type {
        &self.checked.types[expr.id]
    }

    fn path(&self, expr: &Expr) -> Path {
        let own = || self.paths.get(&expr.id).cloned().unwrap_or_default();
        self.local_of(expr).map_or_else(own, |local| local.path.clone())
    }

    fn operand(&mut self, expr: &'c Expr) -> Operand<'c> {
        let mut path = self.path(expr);
        if path.first().is_some_and(|first| first == ACCUMULATOR) {
            path.clear();
        }
        Operand { expr, ty: self.ty(expr), path, size: self.size(expr) }
    }

    fn copy_sizes(&mut self, to: &Expr, from: &Expr) {
        if let Some(size) = self.size(from) {
            self.sizes.insert(to.id, size);
        }
        if let Some(entry) = self.entry_size(from) {
            self.entries.insert(to.id, entry);
        }
    }

    fn size_or_unknown(&mut self, expr: &Expr) -> Size {
        self.size(expr).unwrap_or(Size::UNKNOWN)
    }

    fn size(&mut self, expr: &Expr) -> Option<Size> {
        if let Some(size) = self.sizes.get(&expr.id) {
            return Some(*size);
        }
        if let Some(size) = literal_size(expr) {
            return Some(size);
        }
        if let Some(size) = self.declared_size(&self.path(expr)) {
            self.sizes.insert(expr.id, size);
            return Some(size);
        }
        if self.ty(expr).is_scalar() {
            return Some(Size::ONE);
        }
        self.local_of(expr).and_then(|local| local.size)
    }

    fn entry_size(&self, expr: &Expr) -> Option<EntrySize> {
        let own = self.entries.get(&expr.id).copied();
        own.or_else(|| self.local_of(expr).and_then(|local| local.entries))
    }

    /// The largest declared size of the value at the path.
    fn declared_size(&self, path: &[String]) -> Option<Size> {
        let (first, rest) = path.split_first()?;
        // Upstream's estimator ignores the first element of a path, so a path that does not begin
        // with a variable is looked up in the first variable.
        let declared = self.env.declared(first).map(|variable| &variable.decl);
        let mut decl = declared.or(self.env.root())?;
        for step in rest {
            decl = child(decl, step)?;
        }
        Some(Size { min: 0, max: decl.max_elements })
    }

    /// The type and the declared size of the elements of an argument.
    pub(super) fn element(&self, list: &Operand<'c>) -> Option<(&'c Type, Size)> {
        let (Type::List(element) | Type::Map(element, _) | Type::Optional(element)) = list.ty
        else {
            return None;
        };
        let mut path = list.path.clone();
        if !path.is_empty() {
            path.push("@items".to_owned());
        }
        Some((element, self.declared_size(&path).unwrap_or(Size::UNKNOWN)))
    }
}

fn widened(own: Option<Size>, size: Size) -> Size {
    own.map_or(size, |own| own.union(size))
}

fn child<'d>(decl: &'d DeclType, step: &str) -> Option<&'d DeclType> {
    const KEY: &DeclType = &DeclType { kind: DeclKind::String, max_elements: 0, nullable: false };
    match (&decl.kind, step) {
        (DeclKind::List(element, _) | DeclKind::Map(element), "@items" | "@values") => {
            Some(element)
        }
        (DeclKind::Map(_), "@keys") => Some(KEY),
        (DeclKind::Object(object), name) => object.escaped_field(name).map(|field| &field.decl),
        _ => None,
    }
}

fn literal_size(expr: &Expr) -> Option<Size> {
    let size = match &expr.kind {
        Kind::Literal(Literal::String(text)) => text.chars().count(),
        Kind::Literal(Literal::Bytes(bytes)) => bytes.len(),
        Kind::Literal(_) => 1,
        Kind::List(items) => items.len(),
        Kind::Map(entries) => entries.len(),
        _ => return None,
    };
    Some(Size::fixed(size as u64))
}

//! The statics that the build script generates from the table.

#![allow(clippy::unreadable_literal, reason = "written by a program for the compiler")]

use super::{Container, Emit, Field, Item, ListType, Package, Span, Text, Type, TypeId};

include!(concat!(env!("OUT_DIR"), "/types.rs"));

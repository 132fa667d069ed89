//! [`ListChunks`]: the chunks of a list, which are encoded while the client reads it.
//!
//! Small items share a chunk. A large item is sent in at most [`MAX_PARTS`] parts: its encoding is in a
//! cache of limited size meanwhile ([`EncodedItems`]), so that an unread list has one part of it.

use std::sync::Arc;
use std::vec;

use bytes::Bytes;

use crate::cache::watch_cache::Entry;
use crate::flow_control::{EncodedItem, EncodedItems};

/// The approximate size of the chunks in which a list is sent.
pub(crate) const CHUNK: usize = 64 << 10;

/// The reserve of a chunk's capacity: the last item of most chunks exceeds the size by less than
/// this.
pub(crate) const MARGIN: usize = 4 << 10;

/// The size from which an encoded item is sent in parts.
const LARGE_ITEM: usize = 2 * CHUNK;

/// The maximum number of parts of an item, each of which may have to encode the item again.
const MAX_PARTS: usize = 4;

/// The maximum total size of the objects that are read for one chunk: rows and metadata are much
/// smaller than the objects that have to be decoded for them.
const MAX_READ: usize = 256 << 10;

/// Appends an item, or its beginning; in the latter case the rest, which is shared with the cache,
/// is returned. The same item always has the same encoding.
pub(crate) type WriteItem = Box<dyn FnMut(&Entry, &mut Vec<u8>) -> Option<Bytes> + Send>;

/// See the [module documentation](self).
pub(crate) struct ListChunks {
    /// The bytes before the items; None once they are sent.
    head: Option<Vec<u8>>,
    entries: vec::IntoIter<Arc<Entry>>,
    write: WriteItem,
    /// The rest of the last item, if only its beginning is sent.
    rest: Option<Bytes>,
    /// The item that is being sent in parts.
    large: Option<LargeItem>,
    /// The cache of large items; None if they are not sent in parts.
    pub(crate) encoded_items: Option<Arc<EncodedItems>>,
    /// The separators before the first item and before every other item.
    pub(crate) separators: [&'static str; 2],
    /// The initial capacity of a chunk, sufficient for most.
    pub(crate) capacity: usize,
    /// The bytes after the items; None at the end.
    tail: Option<Vec<u8>>,
}

impl ListChunks {
    /// A list without separators, whose large items are not sent in parts.
    pub(crate) fn new(
        (head, tail): (Vec<u8>, Vec<u8>),
        entries: Vec<Arc<Entry>>,
        write: WriteItem,
    ) -> Self {
        Self {
            head: Some(head),
            entries: entries.into_iter(),
            write,
            rest: None,
            large: None,
            encoded_items: None,
            separators: ["", ""],
            capacity: 0,
            tail: Some(tail),
        }
    }

    /// The next part of the item that is being sent in parts.
    fn next_part(&mut self) -> Option<Bytes> {
        let large = self.large.as_mut()?;
        let (part, has_more) = large.take(&mut self.write);
        if !has_more {
            self.large = None;
        }
        Some(part)
    }
}

impl Iterator for ListChunks {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        if let Some(sent) = self.rest.take().or_else(|| self.next_part()) {
            return Some(sent);
        }
        self.tail.as_ref()?;
        let mut out = Vec::with_capacity(self.capacity);
        let [mut separator, between] = self.separators;
        match self.head.take() {
            Some(head) => out.extend(head),
            None => separator = between,
        }
        let mut read = 0;
        for entry in self.entries.by_ref() {
            read += entry.len();
            out.extend_from_slice(separator.as_bytes());
            separator = between;
            let start = out.len();
            self.rest = (self.write)(&entry, &mut out);
            if self.rest.is_none()
                && out.len() - start >= LARGE_ITEM
                && let Some(items) = &self.encoded_items
            {
                let encoded = items.put(Bytes::copy_from_slice(&out[start..]));
                out.truncate(start);
                out.shrink_to_fit();
                self.large = Some(LargeItem { entry, encoded, taken: 0 });
                return if out.is_empty() { self.next_part() } else { Some(out.into()) };
            }
            if self.rest.is_some() || out.len() >= CHUNK || read >= MAX_READ {
                return Some(out.into());
            }
        }
        out.extend(self.tail.take()?);
        (!out.is_empty()).then(|| out.into())
    }
}

/// An item that is sent in parts.
struct LargeItem {
    entry: Arc<Entry>,
    encoded: EncodedItem,
    /// The number of bytes that have been taken.
    taken: usize,
}

impl LargeItem {
    /// Takes the next part, and whether more parts follow. It is a copy, which does not keep the
    /// whole encoding in memory.
    fn take(&mut self, write: &mut WriteItem) -> (Bytes, bool) {
        let Self { entry, encoded, taken } = self;
        let encoding = encoded.get_or_encode(|| {
            let mut out = Vec::new();
            write(entry, &mut out);
            out.into_boxed_slice().into()
        });
        let size = encoding.len().div_ceil(MAX_PARTS).max(CHUNK);
        let end = encoding.len().min(*taken + size);
        let part = Bytes::copy_from_slice(&encoding[*taken..end]);
        *taken = end;
        (part, end < encoding.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use store::Record;

    /// A list of objects, each encoded as its name and `size` times its last letter.
    fn list(names: &[&str], size: usize, encoded_items: &Arc<EncodedItems>) -> ListChunks {
        let entries = names.iter().map(|name| {
            let record = Record {
                key: format!("/registry/configmaps/{name}").into(),
                value: format!(r#"{{"metadata":{{"name":"{name}"}}}}"#).into_bytes().into(),
                created: 1,
                modified: 1,
                expires: None,
            };
            Arc::new(Entry::of(&record, "/registry/configmaps".len()))
        });
        let write: WriteItem = Box::new(move |entry, out| {
            let name = entry.name().as_bytes();
            out.extend_from_slice(name);
            out.resize(out.len() + size, name[name.len() - 1]);
            None
        });
        let mut list = ListChunks::new((b"[".into(), b"]".into()), entries.collect(), write);
        list.separators = ["", ","];
        list.encoded_items = Some(Arc::clone(encoded_items));
        list
    }

    fn expected(names: &[&str], size: usize) -> String {
        let item = |name: &&str| format!("{name}{}", name[name.len() - 1..].repeat(size));
        format!("[{}]", names.iter().map(item).collect::<Vec<_>>().join(","))
    }

    #[test]
    fn a_large_item_is_sent_in_parts() {
        for (size, largest) in [(LARGE_ITEM - 1, CHUNK), (5 * CHUNK, 5 * CHUNK / MAX_PARTS + 1)] {
            let names = ["a", "b", "c"];
            let chunks: Vec<Bytes> = list(&names, size, &EncodedItems::new(1 << 20)).collect();
            assert_eq!(chunks.iter().map(Bytes::len).max(), Some(largest));
            assert!(chunks.iter().all(|it| !it.is_empty()));
            assert!(chunks.concat() == expected(&names, size).as_bytes());
        }
    }

    #[test]
    fn lists_that_evict_the_items_of_each_other_are_complete() {
        let encoded_items = EncodedItems::new(5 * CHUNK);
        let names = ["a", "b"];
        let mut lists: Vec<ListChunks> =
            (0..3).map(|_| list(&names, 4 * CHUNK, &encoded_items)).collect();
        let mut texts = vec![Vec::new(); lists.len()];
        let mut is_complete = false;
        while !is_complete {
            is_complete = true;
            for (list, text) in lists.iter_mut().zip(&mut texts) {
                let Some(chunk) = list.next() else { continue };
                text.extend_from_slice(&chunk);
                is_complete = false;
            }
        }
        let expected = expected(&names, 4 * CHUNK);
        assert!(texts.iter().all(|it| it == expected.as_bytes()));
    }
}

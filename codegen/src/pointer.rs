//! JSON Pointers as texts: how places inside a spec are named.
//!
//! Answers for building one, taking it apart and walking up. Leaves out following one down a tree (`yaml`).

/// A step further down: the pointer of a key of a map.
pub(crate) fn child(pointer: &str, key: &str) -> String {
    format!("{pointer}/{}", key.replace('~', "~0").replace('/', "~1"))
}

/// The key or index that a pointer ends with.
pub(crate) fn last(pointer: &str) -> String {
    pointer
        .rsplit('/')
        .next()
        .unwrap_or_default()
        .replace("~1", "/")
        .replace("~0", "~")
}

/// A pointer and everything above it.
pub(crate) fn ancestors(pointer: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(pointer), |pointer| pointer.rfind('/').map(|cut| &pointer[..cut]))
}

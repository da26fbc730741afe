//! Advice about a name that is not known.
//!
//! Answers for the nearest known name and for the help line about it. Leaves out which names are known.

/// The candidate that a misspelt name most likely means.
pub(crate) fn nearest<'a>(
    name: &str,
    candidates: impl IntoIterator<Item = &'a str, IntoIter: Clone>,
) -> Option<&'a str> {
    let limit = (name.chars().count() / 3).clamp(1, 4);
    let candidates = candidates.into_iter();
    candidates
        .clone()
        .map(|candidate| {
            (
                strsim::damerau_levenshtein(&name.to_lowercase(), &candidate.to_lowercase()),
                candidate,
            )
        })
        .filter(|(distance, _)| *distance <= limit)
        .min()
        .map(|(_, candidate)| candidate)
        .or_else(|| abbreviated(name, candidates))
}

/// The only candidate that a name is the beginning of: `desc` for `description`.
fn abbreviated<'a>(name: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let mut whole = candidates.filter(|candidate| candidate.starts_with(name));
    let first = whole.next().filter(|_| name.len() >= 3)?;
    whole.next().is_none().then_some(first)
}

/// A help line for an unknown name: the nearest one, or all when they are few.
pub(crate) fn suggest<'a>(
    name: &str,
    candidates: impl IntoIterator<Item = &'a str, IntoIter: Clone> + Clone,
) -> Option<String> {
    if let Some(near) = nearest(name, candidates.clone()) {
        return Some(format!("did you mean `{near}`?"));
    }
    // A stand-in for an unreadable name is no name.
    let mut all: Vec<&str> = candidates.into_iter().filter(|name| !name.is_empty()).collect();
    all.sort_unstable();
    all.dedup();
    match all.len() {
        0 => None,
        1..=12 => Some(format!("known: {}", list(&all))),
        more => Some(format!("none of the {more} known names is near it")),
    }
}

/// `a`, `b`, `c`.
pub(crate) fn list(names: &[&str]) -> String {
    names
        .iter()
        .map(|name| format!("`{name}`"))
        .collect::<Vec<_>>()
        .join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_near() {
        assert_eq!(
            nearest("write_todolits", ["write_todolist", "bug_open"]),
            Some("write_todolist")
        );
        assert_eq!(nearest("write_todolist", ["bug_open"]), None);
        assert_eq!(nearest("pm", ["coder", "po"]), Some("po"));
        assert_eq!(nearest("desc", ["default", "description"]), Some("description"));
        assert_eq!(nearest("min", ["minItems", "minLength"]), None);
    }
}

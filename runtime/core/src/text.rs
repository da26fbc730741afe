//! Small text tools that several domains share.
//!
//! Answers for finding the nearest known word. Leaves out search and similarity of longer texts.

/// The known words nearest to `word`, best first, at most `limit`. Only words that a typing error could explain: within
/// a third of the length, or sharing a prefix or a part. Cost: one edit distance per known word.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>, limit: usize) -> Vec<&'a str> {
    let lower = word.to_lowercase();
    let mut scored: Vec<(usize, &str)> = known
        .into_iter()
        .filter_map(|candidate| {
            let other = candidate.to_lowercase();
            let distance = strsim::osa_distance(&lower, &other);
            let allowed = (lower.chars().count().max(other.chars().count()) / 3).max(1);
            let part = lower.len() >= 3 && (other.contains(&lower) || (other.len() >= 3 && lower.contains(&other)));
            (distance <= allowed || part).then_some((distance, candidate))
        })
        .collect();
    scored.sort_unstable();
    scored.into_iter().take(limit).map(|(_, candidate)| candidate).collect()
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn a_typing_error_finds_its_word_and_nothing_else() {
        let known = ["write_todolist", "update_todo_item", "record_memory"];
        assert_eq!(nearest("write_todo_list", known, 3), ["write_todolist"]);
        assert_eq!(nearest("Write_Todolist", known, 3), ["write_todolist"]);
        assert_eq!(nearest("zzz", known, 3), [""; 0]);
    }

    #[test]
    fn a_part_of_a_word_finds_it() {
        assert_eq!(
            nearest("todo", ["write_todolist", "record_memory"], 3),
            ["write_todolist"]
        );
    }
}

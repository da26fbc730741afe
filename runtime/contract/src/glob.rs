//! Path patterns: the language of write permissions and declared effects.
//!
//! Answers for parsing, matching and the decision whether patterns cover another one. Leaves out paths themselves (the
//! core validates them) and what the variables stand for (the caller binds them).

//! What is wrong with a spec, and where.
//!
//! Answers for one form of error text, the same from the build script, from `cargo codegen` and in tests. Leaves out the
//! finding of errors.

use std::error::Error;
use std::fmt;

/// One error: `path:line:col: message`, and a help line with the nearest right thing.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Diagnostic {
    /// The spec file, relative to the root of the repository (`specs/…`).
    pub path: String,
    /// 1-based; 0 with `column` 0 when the error is about the file as a whole.
    pub line: u64,
    /// 1-based, in characters.
    pub column: u64,
    /// What was found and what is expected.
    pub message: String,
    /// What to do.
    pub help: Option<String>,
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.path)?;
        if self.line > 0 {
            write!(f, ":{}:{}", self.line, self.column)?;
        }
        write!(f, ": {}", self.message)?;
        if let Some(help) = &self.help {
            write!(f, "\n  help: {help}")?;
        }
        Ok(())
    }
}

/// Every error of a spec folder, sorted by place, each once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpecErrors(Vec<Diagnostic>);

impl SpecErrors {
    /// Sorts the errors by place and drops repetitions; `None` when there are none.
    pub fn collect(mut errors: Vec<Diagnostic>) -> Option<Self> {
        errors.sort();
        errors.dedup();
        (!errors.is_empty()).then_some(Self(errors))
    }

    /// The errors, in order of place.
    pub fn iter(&self) -> std::slice::Iter<'_, Diagnostic> {
        self.0.iter()
    }
}

impl<'a> IntoIterator for &'a SpecErrors {
    type Item = &'a Diagnostic;
    type IntoIter = std::slice::Iter<'a, Diagnostic>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl fmt::Display for SpecErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            error.fmt(f)?;
        }
        Ok(())
    }
}

impl Error for SpecErrors {}

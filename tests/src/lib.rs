//! What crosses crates: acceptance tests and benchmarks. The package is never published.

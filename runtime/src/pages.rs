//! Lists of upstream servers, read page by page.
//!
//! Answers for reading on to the end of a list, for the bounds of that, and for saying where it stopped and why. Leaves out
//! the requests (`upstream`) and which servers are asked (`servers`).

use std::collections::HashSet;
use std::future::Future;
use std::time::{Duration, Instant};

use devloop_core::text::json_bytes;
use serde_json::Value;

use crate::servers::{Object, listed, text};
use crate::upstream::CallError;

/// When no further page is read. The one that reaches a bound is kept.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pages: usize,
    bytes: usize,
    until: Instant,
}

/// What was read of a list.
#[derive(Debug, Default)]
pub(crate) struct Pages {
    pub(crate) items: Vec<Object>,
    /// Where it goes on, when not all was read.
    pub(crate) cut: Option<Cut>,
}

/// Where a list goes on that was not read to its end.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Cut {
    pub(crate) cursor: String,
    pub(crate) reason: String,
}

impl Bounds {
    /// For the lists of one call that begins now and may take so long.
    pub(crate) fn of(time: Duration) -> Self {
        Self {
            pages: 20,
            bytes: 4 << 20,
            // The rest is for the first pages of other lists.
            until: Instant::now() + time / 2,
        }
    }
}

/// Reads the list `key` of a server, from the page of a cursor or the first one on; `ask` asks for one page.
///
/// # Errors
/// The first page is not there, or the call is cancelled.
pub(crate) async fn follow<A>(
    server: &str,
    key: &str,
    first: Option<String>,
    bounds: Bounds,
    ask: impl Fn(Option<String>) -> A,
) -> Result<Pages, CallError>
where
    A: Future<Output = Result<Value, CallError>>,
{
    let mut pages = Pages::default();
    let mut seen: HashSet<String> = first.iter().cloned().collect();
    let mut page = ask(first).await?;
    let (mut count, mut bytes) = (1, 0);
    loop {
        bytes += json_bytes(&page);
        // Servers without a further page say so in either way.
        let next = text(&page, "nextCursor").filter(|cursor| !cursor.is_empty());
        pages.items.extend(listed(&mut page, key, server));
        let Some(cursor) = next else { return Ok(pages) };
        let reason = if !seen.insert(cursor.clone()) {
            "the server gave this cursor before: its list may have no end".to_owned()
        } else if count >= bounds.pages {
            format!("so many pages are read at once: {}", bounds.pages)
        } else if bytes >= bounds.bytes {
            format!("so many bytes are read at once: {}", bounds.bytes)
        } else if Instant::now() >= bounds.until {
            "half the time of the call was over".to_owned()
        } else {
            match ask(Some(cursor.clone())).await {
                Ok(next) => {
                    (page, count) = (next, count + 1);
                    continue;
                }
                Err(CallError::Cancelled) => return Err(CallError::Cancelled),
                Err(error) => error.to_string(),
            }
        };
        pages.cut = Some(Cut { cursor, reason });
        return Ok(pages);
    }
}

/// All that servers have listed, and what `told` makes of each list that goes on.
pub(crate) fn joined<M>(found: Vec<(String, Pages)>, told: impl Fn(String, Cut) -> M) -> (Vec<Object>, Vec<M>) {
    let (mut items, mut more) = (Vec::new(), Vec::new());
    for (server, pages) in found {
        items.extend(pages.items);
        more.extend(pages.cut.map(|cut| told(server, cut)));
    }
    (items, more)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn bounds() -> Bounds {
        Bounds {
            pages: 5,
            bytes: 1_000,
            until: Instant::now() + Duration::from_hours(1),
        }
    }

    /// What is read when each page has one item and `next` says what comes after the page of a cursor.
    async fn read(
        first: Option<&str>,
        bounds: Bounds,
        next: impl Fn(usize) -> Result<Value, CallError>,
    ) -> Result<(Vec<u64>, Option<(String, String)>), CallError> {
        let ask = |cursor: Option<String>| {
            let number: usize = cursor.map_or(0, |cursor| cursor.parse().expect("a number"));
            let next = next(number);
            async move { next.map(|next| json!({ "things": [{ "n": number }], "nextCursor": next })) }
        };
        let pages = follow("s", "things", first.map(str::to_owned), bounds, ask).await?;
        let numbers = pages.items.iter().map(|item| {
            assert_eq!(item["server"], "s");
            item["n"].as_u64().expect("a number")
        });
        Ok((numbers.collect(), pages.cut.map(|cut| (cut.cursor, cut.reason))))
    }

    fn cut(cursor: &str, reason: &str) -> (String, String) {
        (cursor.to_owned(), reason.to_owned())
    }

    #[tokio::test]
    async fn a_list_is_read_to_its_end_or_its_bounds_and_what_is_cut_is_told() {
        let endless = |number: usize| Ok(json!((number + 1).to_string()));
        for end in [json!(null), json!(""), json!(7)] {
            let short = |number| if number == 3 { Ok(end.clone()) } else { endless(number) };
            assert_eq!(read(None, bounds(), short).await.unwrap(), (vec![0, 1, 2, 3], None));
            assert_eq!(read(Some("2"), bounds(), short).await.unwrap(), (vec![2, 3], None));
        }
        let all = (vec![0, 1, 2, 3, 4], Some(cut("5", "so many pages are read at once: 5")));
        assert_eq!(read(None, bounds(), endless).await.unwrap(), all);
        let small = Bounds { bytes: 100, ..bounds() };
        let (numbers, told) = read(None, small, endless).await.unwrap();
        assert_eq!(
            told,
            Some(cut("3", "so many bytes are read at once: 100")),
            "{numbers:?}"
        );
        let late = Bounds {
            until: Instant::now(),
            ..bounds()
        };
        let told = (vec![0], Some(cut("1", "half the time of the call was over")));
        assert_eq!(read(None, late, endless).await.unwrap(), told);
        let reason = "the server gave this cursor before: its list may have no end";
        let circle = |number: usize| Ok(json!(((number + 1) % 3).to_string()));
        assert_eq!(
            read(Some("1"), bounds(), circle).await.unwrap(),
            (vec![1, 2, 0], Some(cut("1", reason)))
        );
    }

    #[tokio::test]
    async fn an_error_of_a_later_page_costs_no_earlier_one() {
        let failing = |at: usize, error: fn() -> CallError| {
            move |number: usize| {
                if number == at {
                    Err(error())
                } else {
                    Ok(json!((number + 1).to_string()))
                }
            }
        };
        let refused = || CallError::Refused {
            server: "s".into(),
            code: -32603,
            message: "no luck".into(),
            data: None,
        };
        let (numbers, told) = read(None, bounds(), failing(2, refused)).await.unwrap();
        assert_eq!(numbers, [0, 1]);
        let (cursor, reason) = told.expect("it is told");
        assert!(cursor == "2" && reason.contains("no luck"), "{cursor}: {reason}");
        assert!(read(None, bounds(), failing(0, refused)).await.is_err());
        let cancelled = read(None, bounds(), failing(2, || CallError::Cancelled)).await;
        assert!(matches!(cancelled, Err(CallError::Cancelled)), "{cancelled:?}");
    }
}

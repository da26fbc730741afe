//! The tools of a server, fetched and handed on.
//!
//! Answers for all pages of a list in bounded memory, and for reading tools that are badly made: each becomes something
//! that the catalogue can judge by itself, so that one of them does not cost the others. Leaves out the judging.

use std::collections::HashSet;

use devloop_core::catalogue::{BYTES, Offered, TOOLS};
use devloop_core::text::json_bytes;
use rmcp::model::{ClientRequest, ListToolsRequest, PaginatedRequestParams};
use serde_json::Value;

use super::board::Board;
use super::live::Live;
use super::wire::raw;
use super::{OURS, Sink};

/// As many tools that were set aside are told one by one.
const TOLD: usize = 20;

/// What became of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fetched {
    /// It was taken, but for some tools.
    Taken { tools: usize, quarantined: usize },
    /// The server answered, and the answer can't be taken: another one may come with the next change.
    Refused(String),
    /// The server did not answer.
    Failed(String),
}

/// The tools of a list.
#[derive(Debug, Default)]
pub(super) struct Pages {
    offered: Vec<Offered>,
    /// Tools that have no name to be set aside by.
    nameless: usize,
}

/// All pages; fewer when there is more than will be taken anyway.
pub(super) async fn fetch(live: &Live) -> Result<Pages, String> {
    let mut pages = Pages::default();
    if live.info.as_ref().is_some_and(|info| info.capabilities.tools.is_none()) {
        return Ok(pages);
    }
    let mut bytes = 0;
    let mut cursors = HashSet::new();
    let mut cursor = None;
    loop {
        let page = PaginatedRequestParams::default().with_cursor(cursor.take());
        let request = ClientRequest::ListToolsRequest(ListToolsRequest::with_param(page));
        let answer = live.peer.send_request(request).await;
        let mut page = raw(answer.map_err(|error| error.to_string())?);
        bytes += json_bytes(&page);
        match page.get_mut("tools").map(Value::take) {
            Some(Value::Array(page)) => {
                for tool in page {
                    match offered(tool) {
                        Some(tool) => pages.offered.push(tool),
                        None => pages.nameless += 1,
                    }
                }
            }
            _ => return Err("the answer to tools/list has no array `tools`".to_owned()),
        }
        let next = match page.get("nextCursor") {
            Some(Value::String(next)) => next.clone(),
            _ => return Ok(pages),
        };
        if pages.offered.len() + pages.nameless > TOOLS {
            return Ok(pages);
        }
        if bytes > 2 * BYTES {
            return Err(format!(
                "its list has more than {} bytes; at most {BYTES} are taken",
                2 * BYTES
            ));
        }
        // Pages may be empty, but not for ever.
        if cursors.len() > TOOLS || !cursors.insert(next.clone()) {
            return Err("its pages of tools lead back to themselves".to_owned());
        }
        cursor = Some(next);
    }
}

/// Gives the list to whoever keeps it, and tells what was not taken.
pub(super) fn hand_on(sink: &dyn Sink, server: &str, board: &Board, pages: Pages) -> Fetched {
    let Pages { offered, nameless } = pages;
    let count = offered.len();
    if nameless > 0 {
        board.said("error", OURS, &format!("{nameless} tools without a name are set aside"));
    }
    match sink.tools(server, offered) {
        Ok(replaced) => {
            let aside = &replaced.quarantined;
            for tool in aside.iter().take(TOLD) {
                board.said("warning", OURS, &format!("the tool {tool} is set aside"));
            }
            if aside.len() > TOLD {
                let more = aside.len() - TOLD;
                board.said("warning", OURS, &format!("{more} more tools are set aside"));
            }
            Fetched::Taken {
                tools: count - aside.len(),
                quarantined: aside.len() + nameless,
            }
        }
        Err(refused) => {
            board.said("error", OURS, &refused.to_string());
            Fetched::Refused(one_line(&refused.to_string()))
        }
    }
}

/// A list of reasons for places that have one line.
fn one_line(text: &str) -> String {
    let mut lines = text.lines();
    let first = lines.next().unwrap_or_default();
    let reasons: Vec<&str> = lines.map(|line| line.trim_start_matches("- ")).collect();
    if reasons.is_empty() {
        first.to_owned()
    } else {
        format!("{first}: {}", reasons.join("; "))
    }
}

/// A tool that has a name, with whatever else of it can be read.
fn offered(tool: Value) -> Option<Offered> {
    let Value::Object(mut tool) = tool else {
        return None;
    };
    let mut string = |key: &str| match tool.shift_remove(key) {
        Some(Value::String(text)) => Some(text),
        _ => None,
    };
    Some(Offered {
        name: string("name").filter(|name| !name.is_empty())?,
        title: string("title"),
        description: string("description"),
        input_schema: tool.shift_remove("inputSchema").unwrap_or_default(),
        output_schema: tool.shift_remove("outputSchema").filter(|schema| !schema.is_null()),
        annotations: match tool.shift_remove("annotations") {
            Some(Value::Object(annotations)) => Some(annotations),
            _ => None,
        },
        meta: match tool.shift_remove("_meta") {
            Some(Value::Object(meta)) => Some(meta),
            _ => None,
        },
    })
}

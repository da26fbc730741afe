//! The list of tools, as it is shown page by page.
//!
//! Answers for making the list anew when the tools have changed, and for cursors that belong to one list alone, those of
//! lists of one page included. Leaves out which tools are shown.

use std::sync::{Arc, Mutex, PoisonError};

use devloop_contract::InternalError;
use devloop_core::registry::Definition;
use rmcp::model::{ErrorData, ListToolsResult, PaginatedRequestParams};

use super::answer::shortened;
use crate::call::Listing;
use crate::projection::mcp_tool;

/// The lists that were made last, one for each way to list.
#[derive(Debug, Default)]
pub(super) struct Lists {
    made: Mutex<[Option<Arc<List>>; 2]>,
}

impl Lists {
    /// The list of the tools that `tools` gives, made anew when `revision` is another than last time. With `page_size` 0 it
    /// is one page. Cost: nothing when nothing has changed, else about 9 µs for each tool.
    ///
    /// # Errors
    /// A tool's schema is not a JSON object.
    pub(super) fn get(
        &self,
        listing: Listing,
        revision: u64,
        page_size: usize,
        tools: impl FnOnce() -> Vec<Arc<Definition>>,
    ) -> Result<Arc<List>, InternalError> {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = &mut made[match listing {
            Listing::Shown => 0,
            Listing::Every => 1,
        }];
        if let Some(list) = slot.as_ref().filter(|list| list.revision == revision) {
            return Ok(Arc::clone(list));
        }
        let list = Arc::new(List::new(&tools(), revision, page_size)?);
        *slot = Some(Arc::clone(&list));
        Ok(list)
    }
}

/// One list.
#[derive(Debug)]
pub(super) struct List {
    revision: u64,
    tools: Vec<rmcp::model::Tool>,
    page_size: usize,
    /// Tells cursors of this very list from any other.
    digest: u64,
}

impl List {
    fn new(tools: &[Arc<Definition>], revision: u64, page_size: usize) -> Result<Self, InternalError> {
        let mut tools = tools.iter().map(|tool| mcp_tool(tool)).collect::<Result<Vec<_>, _>>()?;
        tools.sort_by(|left, right| left.name.cmp(&right.name));
        let page_size = if page_size == 0 { tools.len().max(1) } else { page_size };
        Ok(Self {
            revision,
            digest: digest(&tools, page_size),
            tools,
            page_size,
        })
    }

    /// The page of a cursor, or the first.
    ///
    /// # Errors
    /// The cursor is of another list.
    pub(super) fn page(&self, cursor: Option<&str>) -> Result<ListToolsResult, ErrorData> {
        let start = match cursor {
            None => 0,
            Some(cursor) => self.start_of(cursor).ok_or_else(|| unknown_cursor(cursor))?,
        };
        let end = (start + self.page_size).min(self.tools.len());
        let mut result = ListToolsResult::with_all_items(self.tools[start..end].to_vec());
        if end < self.tools.len() {
            result.next_cursor = Some(self.cursor(end));
        }
        Ok(result)
    }

    fn cursor(&self, start: usize) -> String {
        format!("{:016x}{start:x}", self.digest)
    }

    /// Where the page of a cursor starts, if this very list made the cursor.
    fn start_of(&self, cursor: &str) -> Option<usize> {
        let (_, start) = cursor.split_at_checked(16)?;
        let start = usize::from_str_radix(start, 16).ok()?;
        let is_a_page = start > 0 && start < self.tools.len() && start.is_multiple_of(self.page_size);
        (is_a_page && self.cursor(start) == cursor).then_some(start)
    }
}

/// Of a list that has one page no cursor is known.
///
/// # Errors
/// There is a cursor.
pub(super) fn one_page(request: Option<&PaginatedRequestParams>) -> Result<(), ErrorData> {
    match request.and_then(|request| request.cursor.as_deref()) {
        Some(cursor) => Err(unknown_cursor(cursor)),
        None => Ok(()),
    }
}

fn unknown_cursor(cursor: &str) -> ErrorData {
    ErrorData::invalid_params(
        format!(
            "unknown cursor {:?}: pass `nextCursor` of the last answer of this server, or leave the cursor out to start \
             from the first page",
            shortened(cursor, 64)
        ),
        None,
    )
}

/// A digest of what a cursor depends on: the names, their order and the size of a page (FNV-1a).
fn digest(tools: &[rmcp::model::Tool], page_size: usize) -> u64 {
    let names = tools.iter().flat_map(|tool| tool.name.bytes().chain([0]));
    names
        .chain(page_size.to_be_bytes())
        .fold(0xcbf2_9ce4_8422_2325, |digest, byte| {
            (digest ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        })
}

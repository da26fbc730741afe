//! How many requests of a connection may wait.
//!
//! Answers for refusing the one that comes when as many wait as may, or as much, and for telling the transport of each that waits, so
//! that no frame is held up by it. Leaves out how many calls a service itself lets wait, which should be fewer.

use std::borrow::Cow;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;

use devloop_contract::FailureBody;
use rmcp::model::{
    ClientNotification, ClientRequest, ErrorCode, ErrorData, ProtocolVersion, ServerConfig, ServerResult,
};
use rmcp::service::{NotificationContext, RequestContext};
use rmcp::{RoleServer, Service};

use super::Server;
use crate::call::ToolService;
use crate::mcp::transport::{Bound, Class, Full, Work};

/// A server of which only so many requests may wait.
pub(in crate::mcp) struct Gated<S>(pub(in crate::mcp) Server<S>);

impl<S: ToolService> Service<RoleServer> for Gated<S> {
    async fn handle_request(
        &self,
        request: ClientRequest,
        mut context: RequestContext<RoleServer>,
    ) -> Result<ServerResult, ErrorData> {
        // The transport gives every request one. It ends with this future, and so before the answer is sent.
        let work = context.extensions.get::<Arc<Work>>().map(Arc::clone);
        let class = match &request {
            ClientRequest::CallToolRequest(_) => Class::Call,
            _ => Class::Other,
        };
        if let Some(work) = &work {
            match (&request, work.may_begin(class)) {
                // The service answers it at once, and keeps a record.
                (ClientRequest::CallToolRequest(_), Err(full)) => {
                    context.extensions.insert(NoRoom(full));
                    return self.0.handle_request(request, context).await;
                }
                // These may wait: for servers that are still being asked what they have, and for changes.
                (ClientRequest::ListToolsRequest(_) | ClientRequest::SubscriptionsListenRequest(_), Err(full)) => {
                    let message = format!(
                        "{} requests wait already: send this one again when they are answered",
                        full.waiting
                    );
                    return Err(ErrorData::new(ErrorCode(-32000), message, None));
                }
                _ => {}
            }
        }
        let mut handled = pin!(self.0.handle_request(request, context));
        let mut told = false;
        poll_fn(|waker| {
            let poll = handled.as_mut().poll(waker);
            if poll.is_pending()
                && !told
                && let Some(work) = &work
            {
                told = true;
                work.waits(class);
            }
            poll
        })
        .await
    }

    async fn handle_notification(
        &self,
        notification: ClientNotification,
        context: NotificationContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.0.handle_notification(notification, context).await
    }

    fn get_info(&self) -> ServerConfig {
        Service::get_info(&self.0)
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        Service::supported_protocol_versions(&self.0)
    }
}

/// Marks a call that comes when as many wait as may, or as much.
#[derive(Clone, Copy, Debug)]
pub(super) struct NoRoom(Full);

impl NoRoom {
    /// The same that a session says.
    pub(super) fn body(self) -> FailureBody {
        let Full { waiting, bound } = self.0;
        let calls = if waiting == 1 { "call waits" } else { "calls wait" };
        let why = match bound {
            Bound::Requests => String::new(),
            Bound::Bytes(most) => format!(", and with this one they would take more than {most} bytes"),
        };
        let reason = format!("{waiting} {calls} on this connection already{why}; nothing was done");
        let hint = "Call again when they have been answered.".to_owned();
        FailureBody::of_path("tool_busy", reason, hint)
    }
}

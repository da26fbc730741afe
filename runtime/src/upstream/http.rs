//! Servers over streamable HTTP, by the protocol library's own client.
//!
//! Answers for the address, the headers and the largest answer, and for telling the listener of notifications in the
//! order in which they came. Leaves out signing in: a token is put into `headers`.

use std::collections::{BTreeMap, HashMap};
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Once};

use http::{HeaderName, HeaderValue};
use rmcp::RoleClient;
use rmcp::model::{ClientJsonRpcMessage, JsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::transport::{StreamableHttpClientTransport, Transport};
use serde_json::Value;

use super::config::Hidden;
use super::wire::{Listener, is_for_library};

/// A connection to come.
///
/// # Errors
/// What is wrong with the address or the headers.
pub(super) fn transport(
    url: &Hidden,
    headers: &BTreeMap<String, Hidden>,
    limit: usize,
    listener: Arc<dyn Listener>,
) -> Result<Heard<impl Transport<RoleClient> + use<>>, String> {
    url.reveal()
        .parse::<http::Uri>()
        .map_err(|error| format!("its address is none: {error}"))?;
    let mut custom = HashMap::new();
    for (name, value) in headers {
        let header: HeaderName = name
            .parse()
            .map_err(|_| format!("`{name}` can't be the name of a header"))?;
        let mut value: HeaderValue = value
            .reveal()
            .parse()
            .map_err(|_| format!("the value of the header `{name}` has characters that none may have"))?;
        value.set_sensitive(true);
        custom.insert(header, value);
    }
    let config = StreamableHttpClientTransportConfig::with_uri(url.reveal())
        .custom_headers(custom)
        .max_sse_event_size(limit)
        .max_json_response_size(limit);
    provide_cryptography();
    // It panics when its client can't be made, as on a machine without any certificates.
    let transport = catch_unwind(AssertUnwindSafe(|| StreamableHttpClientTransport::from_config(config)))
        .map_err(|_| "an HTTP client can't be made on this machine; has it root certificates?".to_owned())?;
    Ok(Heard {
        inner: transport,
        listener,
    })
}

/// The one of this process, unless its host has chosen another.
fn provide_cryptography() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
}

/// A transport whose notifications are told.
pub(super) struct Heard<T> {
    inner: T,
    listener: Arc<dyn Listener>,
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for Heard<T> {
    type Error = T::Error;

    fn send(&mut self, item: ClientJsonRpcMessage) -> impl Future<Output = Result<(), T::Error>> + Send + 'static {
        self.inner.send(item)
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        loop {
            let message = self.inner.receive().await?;
            self.listener.heard();
            let JsonRpcMessage::Notification(notification) = &message else {
                return Some(message);
            };
            // What was made from JSON can be written as JSON.
            let mut frame = serde_json::to_value(&notification.notification).unwrap_or_default();
            let params = frame.get_mut("params").map(Value::take).unwrap_or_default();
            let method = frame["method"].as_str().unwrap_or_default().to_owned();
            let for_library = is_for_library(&method, &params);
            self.listener.notified(&method, params);
            if for_library {
                return Some(message);
            }
        }
    }

    fn close(&mut self) -> impl Future<Output = Result<(), T::Error>> + Send {
        self.inner.close()
    }
}

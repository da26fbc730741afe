//! Servers over streamable HTTP, by the protocol library's own client.
//!
//! Answers for the address, the headers and the largest answer, and for telling the listener of notifications in the
//! order in which they came. Leaves out signing in: a token is put into `headers`; and what becomes of each request:
//! that is `watched`.

use std::collections::{BTreeMap, HashMap};
use std::future::Future;
use std::sync::{Arc, Once};
use std::time::Duration;

use http::{HeaderName, HeaderValue, StatusCode, Uri};
use reqwest::redirect;
use rmcp::RoleClient;
use rmcp::model::{ClientJsonRpcMessage, JsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::common::client_side_sse::ExponentialBackoff;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::transport::{StreamableHttpClientTransport, Transport};
use serde_json::Value;

use super::config::Hidden;
use super::fate::Fate;
use super::watched::Watched;
use super::wire::{Listener, is_for_library};

/// A machine that answers nothing at all is waited for so long.
const REACHING: Duration = Duration::from_secs(10);

/// Between two attempts to take up a stream of events again lies at most so much.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// As many redirections of one request are followed.
const REDIRECTIONS: usize = 10;

/// A connection to come.
///
/// # Errors
/// What is wrong with the address or the headers.
pub(super) fn transport(
    url: &Hidden,
    headers: &BTreeMap<String, Hidden>,
    limit: usize,
    listener: Arc<dyn Listener>,
    fate: &Arc<Fate>,
) -> Result<Heard<impl Transport<RoleClient> + use<>>, String> {
    let address = url
        .reveal()
        .parse::<Uri>()
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
    let mut config = StreamableHttpClientTransportConfig::with_uri(url.reveal())
        .custom_headers(custom)
        .max_sse_event_size(limit)
        .max_json_response_size(limit)
        // A session that has ended is a connection that has ended: its tools may be others in the next one.
        .reinit_on_expired_session(false);
    let mut pauses = ExponentialBackoff::default();
    pauses.max_delay = Some(LONGEST_PAUSE);
    config.retry_config = Arc::new(pauses);
    let watched = Watched::new(client()?, &address, limit, Arc::clone(fate));
    Ok(Heard {
        inner: StreamableHttpClientTransport::with_client(watched, config),
        listener,
        fate: Arc::clone(fate),
    })
}

/// The same client as the protocol library's own, but for the time that reaching a machine may take.
fn client() -> Result<reqwest::Client, String> {
    provide_cryptography();
    reqwest::Client::builder()
        // Connections that wait for their next request cost tens of milliseconds where an answer was not read to its end.
        .pool_max_idle_per_host(0)
        .connect_timeout(REACHING)
        .redirect(redirect::Policy::custom(|attempt| {
            // Another kind of redirection loses the body, and another host is not to be told the headers.
            let keeps_body = matches!(
                attempt.status(),
                StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT
            );
            let stays = attempt
                .previous()
                .first()
                .is_some_and(|first| first.origin() == attempt.url().origin());
            if keeps_body && stays && attempt.previous().len() <= REDIRECTIONS {
                attempt.follow()
            } else {
                attempt.stop()
            }
        }))
        .build()
        .map_err(|error| format!("an HTTP client can't be made on this machine ({error}); has it root certificates?"))
}

/// The one of this process, unless its host has chosen another.
fn provide_cryptography() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
}

/// A transport whose notifications are told, and that ends when its fate is sealed.
pub(super) struct Heard<T> {
    inner: T,
    listener: Arc<dyn Listener>,
    fate: Arc<Fate>,
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for Heard<T> {
    type Error = T::Error;

    fn send(&mut self, item: ClientJsonRpcMessage) -> impl Future<Output = Result<(), T::Error>> + Send + 'static {
        self.inner.send(item)
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        loop {
            let message = tokio::select! {
                biased;
                message = self.inner.receive() => message?,
                () = self.fate.sealed() => return None,
            };
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

//! A connection that is up.
//!
//! Answers for what is known of it. Leaves out making it and keeping it up.

use std::sync::Arc;

use devloop_core::connection::Epoch;
use rmcp::RoleClient;
use rmcp::model::ServerPeerInfo;
use rmcp::service::Peer;

use super::board::Board;
use super::fate::Fate;

/// A connection that is up.
pub(super) struct Live {
    pub(super) epoch: Epoch,
    pub(super) peer: Peer<RoleClient>,
    pub(super) board: Arc<Board>,
    pub(super) fate: Arc<Fate>,
    pub(super) info: Option<Arc<ServerPeerInfo>>,
}

impl Live {
    /// Whether the server has a handshake and all that came with it, pings included.
    pub(super) fn has_handshake(&self) -> bool {
        self.info
            .as_ref()
            .is_none_or(|info| info.protocol_version.has_initialize())
    }
}
